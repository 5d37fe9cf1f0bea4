pub fn add(_suite: &mut super::Suite) {}
