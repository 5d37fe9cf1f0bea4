//! [`Order`]: in which order a checkpoint walks through the databases. If two are swapped while it does, each is walked all the same: it has
//! its turn wherever it is.

/// How many databases there are.
pub const DATABASES: u8 = 16;

/// The database of each turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order([u8; DATABASES as usize]);

impl Default for Order {
    fn default() -> Order {
        let mut order = [0; DATABASES as usize];
        order.iter_mut().zip(0..).for_each(|(place, number)| *place = number);
        Order(order)
    }
}

impl Order {
    /// The number of the database whose turn this is.
    pub fn database(&self, turn: u8) -> u8 {
        self.0.get(usize::from(turn)).copied().unwrap_or(0)
    }

    /// Two databases are swapped.
    pub fn swap(&mut self, one: u8, other: u8) {
        for number in &mut self.0 {
            *number = match *number {
                number if number == one => other,
                number if number == other => one,
                number => number,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_keeps_its_turn() {
        let mut order = Order::default();
        order.swap(3, 5);
        order.swap(5, 9);
        order.swap(7, 7);
        assert_eq!([3, 5, 9, 7].map(|turn| order.database(turn)), [9, 3, 5, 7]);
        let mut all: Vec<u8> = (0..DATABASES).map(|turn| order.database(turn)).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..DATABASES));
    }
}
