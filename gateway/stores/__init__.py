"""Where state lives that has to survive a request or a restart."""
