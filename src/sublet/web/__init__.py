"""The console: the API's operations as pages for browsers. It has no rules of its own: each page calls handlers of the API."""
