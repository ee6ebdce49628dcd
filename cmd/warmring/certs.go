package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/node/certs"
)

const (
	caCert = "ca.pem"
	caKey  = "ca-key.pem"

	gossipKeyLen = 32 // bytes: AES-256
)

func newCerts() *cobra.Command {
	return group("certs", "Make the certificates and keys that routers trust each other by",
		newCertsCA(), newCertsNode(), newCertsGossipKey())
}

// pairFiles is where a certificate and its key are written.
type pairFiles struct {
	out   string
	force bool
}

func (p *pairFiles) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.out, "out", ".", "directory to write to")
	cmd.Flags().BoolVar(&p.force, "force", false, "overwrite files that exist")
}

// write returns the paths of the files, the key's readable for its owner alone.
func (p *pairFiles) write(certName, keyName string, pair certs.Pair) (cert, key string, err error) {
	cert, key = filepath.Join(p.out, certName), filepath.Join(p.out, keyName)
	if !p.force {
		for _, name := range []string{cert, key} {
			if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				return "", "", usagef("%s exists; --force overwrites it", name)
			}
		}
	}
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return "", "", err
	}
	if err := writeWhole(key, pair.Key, 0o600); err != nil {
		return "", "", err
	}
	return cert, key, writeWhole(cert, pair.Cert, 0o644)
}

// writeWhole puts a file in its place at once, so that a router that reads it meanwhile sees the old or the new one.
func writeWhole(name string, data []byte, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

func newCertsCA() *cobra.Command {
	var files pairFiles
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Make an authority for the routers of one cluster",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pair, err := certs.NewCA(time.Now())
			if err != nil {
				return err
			}
			cert, key, err := files.write(caCert, caKey, pair)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), `wrote %s and %s
The first one goes to every router (peer.ca_file). The second one signs certificates: keep it away from the routers.
Next: warmring certs node --ca %s --name ROUTER --out DIR
`, cert, key, files.out)
			return err
		},
	}
	files.addTo(cmd)
	return cmd
}

func newCertsNode() *cobra.Command {
	var files pairFiles
	var ca, name string
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Make a router's certificate",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" || filepath.Base(name) != name {
				return usagef("--name must be a name without slashes, such as gpu-router-1")
			}
			authority, err := readCA(ca)
			if err != nil {
				return err
			}
			pair, err := certs.NewNode(authority, name, time.Now())
			if err != nil {
				return err
			}
			cert, key, err := files.write(name+".pem", name+"-key.pem", pair)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), `wrote %[1]s and %[2]s; put into the configuration of %[3]s:

peer:
  cert_file: %[1]s
  key_file: %[2]s
  ca_file: %[4]s
`, cert, key, name, filepath.Join(ca, caCert))
			return err
		},
	}
	cmd.Flags().StringVar(&ca, "ca", ".", "directory that 'warmring certs ca' wrote to")
	cmd.Flags().StringVar(&name, "name", "", "name of the router, for people who read the certificate")
	files.addTo(cmd)
	return cmd
}

func readCA(dir string) (pair certs.Pair, err error) {
	if pair.Cert, err = os.ReadFile(filepath.Join(dir, caCert)); err != nil {
		return pair, err
	}
	pair.Key, err = os.ReadFile(filepath.Join(dir, caKey))
	return pair, err
}

func newCertsGossipKey() *cobra.Command {
	return &cobra.Command{
		Use:   "gossip-key",
		Short: "Print a new key for gossip.key_file",
		Long: `Print a new key for gossip.key_file.

The file holds one key a line, the same ones on every router; the first one encrypts, all of them decrypt. To replace a
key without an interruption, do each step on every router before the next one: add the new key as the last line; make it
the first line; take the old key out. Routers see a change within 10 s.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key := make([]byte, gossipKeyLen)
			_, _ = rand.Read(key) // never fails
			_, err := fmt.Fprintln(cmd.OutOrStdout(), base64.StdEncoding.EncodeToString(key))
			return err
		},
	}
}
