// Package certs makes the certificates that routers show each other, for those who have no authority of their own.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Peer is the DNS name in every router's certificate. Routers check each other's certificate for it instead of for an
// address, so that addresses may change.
const Peer = "warmring"

const (
	day          = 24 * time.Hour
	caLifetime   = 3650 * day
	nodeLifetime = 365 * day
	backdate     = time.Hour // for machines whose clocks are behind
)

// ErrNoCA says that what should be an authority's certificate or key is something else.
var ErrNoCA = errors.New("not the certificate and key of an authority")

// Pair is a certificate and its private key, both PEM.
type Pair struct {
	Cert []byte
	Key  []byte
}

// NewCA makes an authority for one cluster: ECDSA P-256, valid for 10 years from now.
func NewCA(now time.Time) (Pair, error) {
	var number [4]byte
	_, _ = rand.Read(number[:]) // never fails
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: fmt.Sprintf("warmring cluster CA %x", number)}, // told apart by error messages
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caLifetime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:     true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return sign(template, template, key, key)
}

// NewNode makes a certificate for the router called name, signed by ca: for both ends of a connection, valid for a year
// from now but not longer than ca is.
func NewNode(ca Pair, name string, now time.Time) (Pair, error) {
	parent, signer, err := ca.parse()
	if err != nil {
		return Pair{}, err
	}
	if now.After(parent.NotAfter) {
		return Pair{}, fmt.Errorf("the authority's certificate ended at %s", parent.NotAfter.Format(time.RFC3339))
	}
	end := now.Add(nodeLifetime)
	if end.After(parent.NotAfter) {
		end = parent.NotAfter
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		DNSNames:  []string{Peer},
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return sign(template, parent, key, signer)
}

func sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.Signer) (Pair, error) {
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

// parse takes an authority apart.
func (p Pair) parse() (*x509.Certificate, crypto.Signer, error) {
	certBlock, _ := pem.Decode(p.Cert)
	keyBlock, _ := pem.Decode(p.Key)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, ErrNoCA
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoCA, err)
	}
	secret, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoCA, err)
	}
	key, ok := secret.(*ecdsa.PrivateKey)
	if !ok || !cert.IsCA || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, ErrNoCA
	}
	return cert, key, nil
}
