"""One file per API, named as the API; each says what it does and what it leaves out."""
