package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"
)

func leaf(t *testing.T, p Pair) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(p.Cert, p.Key); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(p.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verify(t *testing.T, ca, node Pair, at time.Time, usage x509.ExtKeyUsage) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	_, err := leaf(t, node).Verify(x509.VerifyOptions{DNSName: Peer, Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestNode(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	ca, err := NewCA(now)
	if err != nil {
		t.Fatal(err)
	}
	node, err := NewNode(ca, "router-1", now)
	if err != nil {
		t.Fatal(err)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if err := verify(t, ca, node, now.Add(364*day), usage); err != nil {
			t.Errorf("usage %v: %v", usage, err)
		}
	}
	if verify(t, ca, node, now.Add(366*day), x509.ExtKeyUsageClientAuth) == nil {
		t.Error("valid for more than a year")
	}
	if verify(t, ca, node, now, x509.ExtKeyUsageCodeSigning) == nil {
		t.Error("valid for something else")
	}
	if other, _ := NewCA(now); verify(t, other, node, now, x509.ExtKeyUsageServerAuth) == nil {
		t.Error("another authority vouches for it")
	}
	if _, err := NewNode(node, "router-2", now); !errors.Is(err, ErrNoCA) {
		t.Errorf("signed by a router: %v", err)
	}
}

func TestNodeDoesNotOutliveCA(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	ca, err := NewCA(now)
	if err != nil {
		t.Fatal(err)
	}
	node, err := NewNode(ca, "late", now.Add(caLifetime-day))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := leaf(t, node).NotAfter, leaf(t, ca).NotAfter; got != want {
		t.Errorf("ends at %s, the authority at %s", got, want)
	}
	if _, err := NewNode(ca, "too late", now.Add(caLifetime+day)); err == nil {
		t.Error("signed after the authority's end")
	}
}

func TestNotACA(t *testing.T) {
	ca, err := NewCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]Pair{
		"nothing": {}, "text": {Cert: []byte("x"), Key: []byte("y")}, "swapped": {Cert: ca.Key, Key: ca.Cert},
		"another's key": {Cert: ca.Cert, Key: other.Key},
	} {
		if _, err := NewNode(pair, "r", time.Now()); !errors.Is(err, ErrNoCA) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
