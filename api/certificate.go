package api

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// certificateLook is the least time between two looks at the certificate's files.
const certificateLook = 10 * time.Second

// certificate is what clients are shown. Its files are read again when they have changed, so that it is replaced without a
// restart.
type certificate struct {
	files  TLS
	log    *slog.Logger
	began  time.Time
	latest atomic.Pointer[tls.Certificate]
	seen   atomic.Pointer[[2]time.Time] // when the files that were last read, well or not, had been changed
	next   atomic.Int64                 // when to look at the files again, since began; who moves it looks
}

func newCertificate(files TLS, log *slog.Logger) (*certificate, error) {
	c := &certificate{files: files, log: log, began: time.Now()}
	changed := c.changed()
	cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("api.tls: %w", err)
	}
	c.latest.Store(&cert)
	c.seen.Store(&changed)
	c.next.Store(int64(certificateLook))
	return c, nil
}

// get is for tls.Config. Files that cannot be used are told once, and the former certificate stays.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	at, next := int64(time.Since(c.began)), c.next.Load()
	if at >= next && c.next.CompareAndSwap(next, at+int64(certificateLook)) {
		c.look()
	}
	return c.latest.Load(), nil
}

func (c *certificate) look() {
	changed := c.changed()
	if changed == *c.seen.Load() {
		return
	}
	c.seen.Store(&changed)
	cert, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		c.log.Warn("api certificate not replaced: the former one stays in use", "error", err)
		return
	}
	c.latest.Store(&cert)
	c.log.Info("api certificate replaced", "valid_until", cert.Leaf.NotAfter)
}

// changed is when the files were; a zero time for one that is not there.
func (c *certificate) changed() (at [2]time.Time) {
	for i, name := range []string{c.files.CertFile, c.files.KeyFile} {
		if info, err := os.Stat(name); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}
