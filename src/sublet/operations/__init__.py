"""What all operations of the API share: how they are declared, called, repeated and limited."""
