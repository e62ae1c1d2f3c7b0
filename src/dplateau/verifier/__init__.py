"""A second accountant, in ball arithmetic, that checks the numbers of the first one. It shares no numerical code with it."""
