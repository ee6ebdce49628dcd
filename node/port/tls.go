package port

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/warmring/warmring/node/certs"
)

// reread is the least time between two looks at the certificate files.
const reread = 10 * time.Second

// stamp tells whether a file has changed.
type stamp struct {
	modified time.Time
	size     int64
}

// material is what the certificate files held when they were read. It is not changed.
type material struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

// keeper holds the latest good material, and reads the files again when they have changed, so that certificates are
// replaced without a restart.
type keeper struct {
	files  [3]string // certificate, key, authority
	now    func() time.Time
	log    *slog.Logger
	start  time.Time
	latest atomic.Pointer[material]
	tried  atomic.Pointer[[3]stamp] // the files that were last read, also if they were bad
	next   atomic.Int64             // when to look at the files again, since start; who moves it looks
}

func newKeeper(cfg Config, now func() time.Time, log *slog.Logger) (*keeper, error) {
	k := &keeper{files: [3]string{cfg.CertFile, cfg.KeyFile, cfg.CAFile}, now: now, log: log, start: time.Now()}
	stamps, err := k.stat()
	if err != nil {
		return nil, err
	}
	m, err := k.read()
	if err != nil {
		return nil, err
	}
	k.latest.Store(m)
	k.tried.Store(&stamps)
	k.next.Store(int64(reread))
	return k, nil
}

// material returns what the files hold; a change is seen within reread. Files that cannot be used are reported once and
// the former ones stay in use.
func (k *keeper) material() *material {
	at, next := int64(time.Since(k.start)), k.next.Load()
	if at < next || !k.next.CompareAndSwap(next, at+int64(reread)) {
		return k.latest.Load()
	}
	stamps, err := k.stat()
	if err == nil && stamps == *k.tried.Load() {
		return k.latest.Load()
	}
	if err == nil {
		k.tried.Store(&stamps)
		var m *material
		if m, err = k.read(); err == nil {
			k.latest.Store(m)
			k.log.Info("peer certificate replaced", "valid_until", m.cert.Leaf.NotAfter)
			return m
		}
	}
	k.log.Warn("peer certificate not replaced: the former one stays in use", "error", err)
	return k.latest.Load()
}

func (k *keeper) stat() (stamps [3]stamp, err error) {
	for i, name := range k.files {
		info, err := os.Stat(name)
		if err != nil {
			return stamps, fmt.Errorf("peer.%s: %w", [3]string{"cert_file", "key_file", "ca_file"}[i], err)
		}
		stamps[i] = stamp{modified: info.ModTime(), size: info.Size()}
	}
	return stamps, nil
}

func (k *keeper) read() (*material, error) {
	cert, err := tls.LoadX509KeyPair(k.files[0], k.files[1])
	if err != nil {
		return nil, fmt.Errorf("peer.cert_file: %w", err)
	}
	ca, err := os.ReadFile(k.files[2])
	if err != nil {
		return nil, fmt.Errorf("peer.ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("peer.ca_file: holds no certificate")
	}
	if err := cert.Leaf.VerifyHostname(certs.Peer); err != nil {
		return nil, fmt.Errorf("peer.cert_file: other routers will look for the DNS name %q in it: %w", certs.Peer, err)
	}
	return &material{cert: cert, roots: roots}, nil
}

// server is the TLS configuration for connections that arrive. Tickets are off: a resumed session would not look at
// the certificate again.
func (k *keeper) server() *tls.Config {
	m := k.material()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, Time: k.now,
		Certificates: []tls.Certificate{m.cert},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: m.roots,
		NextProtos: []string{Raft.alpn(), RPC.alpn(), Gossip.alpn()},
		VerifyConnection: func(state tls.ConnectionState) error {
			return state.PeerCertificates[0].VerifyHostname(certs.Peer)
		},
	}
}

// client is the TLS configuration for a connection that is to speak protocol. The certificate is shown also to a port that
// does not know its authority: the refusal then names the reason.
func (k *keeper) client(protocol Protocol) *tls.Config {
	m := k.material()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Time: k.now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.cert, nil },
		ServerName:           certs.Peer, RootCAs: m.roots,
		NextProtos: []string{protocol.alpn()},
	}
}

// advised adds what people can do about a handshake that failed over certificates, on either side of it.
func advised(err error) error {
	_, here := errors.AsType[*tls.CertificateVerificationError](err)
	op, there := errors.AsType[*net.OpError](err)
	if here || there && op.Op == "remote error" { // crypto/tls' word for an alert (RFC 8446, section 6)
		return fmt.Errorf("%w; every router's certificate must be signed by an authority that is in peer.ca_file of all routers", err)
	}
	return err
}
