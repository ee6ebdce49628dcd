package port

// Protocol is what a connection to the port speaks.
type Protocol byte

// The protocols.
const (
	Raft   Protocol = iota // the log of the voters
	RPC                    // calls between routers: gRPC
	Gossip                 // streams of memberlist
	protocols
)

// markerLen is the length of the marker that begins a connection without TLS.
const markerLen = 8

// alpn is the protocol's name in the TLS handshake (RFC 7301). gRPC insists on h2.
func (p Protocol) alpn() string {
	return [protocols]string{"warmring-raft/1", "h2", "warmring-gossip/1"}[p]
}

// marker begins a connection without TLS. It cannot be mistaken for a method of HTTP or a record of TLS.
func (p Protocol) marker() string {
	return [protocols]string{"wrmring1", "wrmring2", "wrmring3"}[p]
}

// named finds the protocol whose name, as told by of, is name.
func named(name string, of func(Protocol) string) (Protocol, bool) {
	for p := range protocols {
		if of(p) == name {
			return p, true
		}
	}
	return 0, false
}
