package gossip

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// keyFile is the file with the keys, and the ring that memberlist uses.
type keyFile struct {
	path     string
	ring     *memberlist.Keyring
	keys     [][]byte // those on the ring, the primary one first
	modified time.Time
	size     int64
	log      *slog.Logger
}

func openKeys(path string, log *slog.Logger) (*keyFile, error) {
	k := &keyFile{path: path, log: log}
	keys, err := k.read()
	if err != nil {
		return nil, err
	}
	if k.ring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
		return nil, fmt.Errorf("gossip.key_file: %w", err)
	}
	k.keys = keys
	return k, nil
}

func (k *keyFile) read() ([][]byte, error) {
	info, err := os.Stat(k.path)
	if err != nil {
		return nil, fmt.Errorf("gossip.key_file: %w", err)
	}
	k.modified, k.size = info.ModTime(), info.Size()
	data, err := os.ReadFile(k.path)
	if err != nil {
		return nil, fmt.Errorf("gossip.key_file: %w", err)
	}
	return parseKeys(data)
}

// parseKeys reads base64 keys, one a line. Empty lines and those that begin with # do not count.
func parseKeys(data []byte) (keys [][]byte, err error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			err = memberlist.ValidateKey(key)
		}
		if err != nil { // without the text: it may be most of a key
			return nil, fmt.Errorf("gossip.key_file: line %d must be base64 of 16, 24 or 32 bytes", n)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.Join(errors.New("gossip.key_file: holds no key"), lines.Err())
	}
	return keys, nil
}

// refresh puts the file's keys on the ring if the file has changed. A file that cannot be used is reported once; the
// former keys stay.
func (k *keyFile) refresh() {
	if info, err := os.Stat(k.path); err == nil && info.ModTime().Equal(k.modified) && info.Size() == k.size {
		return
	}
	keys, err := k.read()
	if err == nil && slices.EqualFunc(keys, k.keys, bytes.Equal) {
		return
	}
	if err == nil {
		err = k.install(keys)
	}
	if err != nil {
		k.log.Warn("gossip keys not replaced: the former ones stay in use", "error", err)
		return
	}
	k.log.Info("gossip keys replaced", "keys", len(keys))
}

// install makes the ring hold keys. Packets are decrypted meanwhile, and Keyring.RemoveKey moves what is behind the key it
// removes, under the eyes of those who read: so keys that go are brought to the end first, and removed from there.
func (k *keyFile) install(keys [][]byte) error {
	for _, key := range keys {
		if err := k.ring.AddKey(key); err != nil {
			return err
		}
	}
	old := k.ring.GetKeys()
	stays := func(key []byte) bool {
		return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
	}
	front := keys[:1]
	if slices.ContainsFunc(old, func(key []byte) bool { return !stays(key) }) {
		front = keys
	}
	for _, key := range slices.Backward(front) {
		if err := k.ring.UseKey(key); err != nil {
			return err
		}
	}
	for _, key := range slices.Backward(k.ring.GetKeys()) {
		if stays(key) {
			break
		}
		if err := k.ring.RemoveKey(key); err != nil {
			return err
		}
	}
	k.keys = keys
	return nil
}
