mod bench;
mod exchange;
mod hostile;
mod passing;
