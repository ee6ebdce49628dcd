package api

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// writePair writes a new certificate and its key, and returns the certificate's bytes.
func writePair(t *testing.T, files TLS) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, files.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	return der
}

// write makes a file change at the bubble's time.
func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestACertificateIsReplacedInPlace(t *testing.T) {
	files := TLS{CertFile: keysFile(t, ""), KeyFile: keysFile(t, "")}
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		first := writePair(t, files)
		c, err := newCertificate(files, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		shows := func(want []byte, when string) {
			t.Helper()
			if got, err := c.get(nil); err != nil || !bytes.Equal(got.Certificate[0], want) {
				t.Errorf("%s: the wrong certificate, %v", when, err)
			}
		}
		time.Sleep(certificateLook)
		shows(first, "at first")
		second := writePair(t, files)
		shows(first, "before it looks again")
		time.Sleep(certificateLook)
		shows(second, "then")
		write(t, files.KeyFile, []byte("no key"))
		for range 3 {
			time.Sleep(certificateLook)
			shows(second, "with a file that cannot be used")
		}
		if text := log.String(); strings.Count(text, "certificate replaced") != 1 || strings.Count(text, "not replaced") != 1 {
			t.Errorf("the log has %s", text)
		}
		third := writePair(t, files)
		time.Sleep(certificateLook)
		shows(third, "at the end")
	})
}
