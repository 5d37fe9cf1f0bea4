//! What a layer over another [`Vsic`](crate::Vsic) remembers of each request under way.

/// Values by number; numbers are used again.
pub(crate) struct Slots<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { values: Vec::new(), free: Vec::new() }
    }

    /// Keeps `value`; its number until it is taken.
    pub(crate) fn put(&mut self, value: T) -> u64 {
        match self.free.pop() {
            Some(index) => {
                if let Some(slot) = self.values.get_mut(index) {
                    *slot = Some(value);
                }
                index as u64
            }
            None => {
                self.values.push(Some(value));
                self.values.len() as u64 - 1
            }
        }
    }

    /// Takes a value, if there is one of that number.
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let value = self.values.get_mut(number as usize)?.take()?;
        self.free.push(number as usize);
        Some(value)
    }
}
