"""The console: the API's operations as pages for browsers. It holds no rule: each page calls the handlers of the API."""
