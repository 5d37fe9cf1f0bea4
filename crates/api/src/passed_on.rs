//! [`commands_passed_on`](crate::commands_passed_on): what a layer between a service and a stack has nothing to do with.

/// The methods of [`Commands`](crate::Commands) that a layer passes on as they are, to its field of this name: time and timers, datagrams,
/// memory, what the device can do. To be used within the layer's `impl Commands`, beside the methods that are its own.
#[macro_export]
macro_rules! commands_passed_on {
    ($below:ident) => {
        fn now(&self) -> $crate::nic::Time {
            self.$below.now()
        }

        fn block(&mut self, length: usize) -> $crate::Block {
            self.$below.block(length)
        }

        fn bind_udp(&mut self, local: std::net::SocketAddr) -> Result<$crate::UdpSocketId, $crate::CommandError> {
            self.$below.bind_udp(local)
        }

        fn close_udp(&mut self, socket: $crate::UdpSocketId) -> Result<(), $crate::CommandError> {
            self.$below.close_udp(socket)
        }

        fn send_to(
            &mut self,
            socket: $crate::UdpSocketId,
            peer: std::net::SocketAddr,
            payload: &[u8],
        ) -> Result<(), $crate::CommandError> {
            self.$below.send_to(socket, peer, payload)
        }

        fn send_chunk_to(
            &mut self,
            socket: $crate::UdpSocketId,
            peer: std::net::SocketAddr,
            chunk: $crate::Chunk,
        ) -> Result<(), $crate::CommandError> {
            self.$below.send_chunk_to(socket, peer, chunk)
        }

        fn set_timer(
            &mut self,
            after: std::time::Duration,
            token: u64,
        ) -> Result<$crate::TimerId, $crate::CommandError> {
            self.$below.set_timer(after, token)
        }

        fn cancel_timer(&mut self, timer: $crate::TimerId) -> bool {
            self.$below.cancel_timer(timer)
        }

        fn prepared_pool(&self) -> &$crate::nic::Pool {
            self.$below.prepared_pool()
        }

        fn stack_capabilities(&self) -> $crate::StackCapabilities {
            self.$below.stack_capabilities()
        }

        fn capabilities(&self) -> $crate::nic::Capabilities {
            self.$below.capabilities()
        }
    };
}
