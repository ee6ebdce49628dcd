//go:build unix

package socket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair returns the two ends of a connection, the first one a *Conn.
func pair(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(near.Close(), far.Close()) })
	c, ok := New(near).(*Conn)
	if !ok {
		t.Fatalf("%T became %T", near, New(near))
	}
	return c, far.(*net.TCPConn)
}

func TestNewLeavesOthersAlone(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if got := New(a); got != a {
		t.Errorf("%T became %T", a, got)
	}
}

// Pieces that the kernel takes in parts arrive whole and in order.
func TestWriteAll(t *testing.T) {
	c, far := pair(t)
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var small error
	err = raw.Control(func(fd uintptr) {
		small = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 64<<10)
	})
	if err = errors.Join(err, small); err != nil { // far less than there is to write
		t.Fatal(err)
	}
	pieces := [][]byte{[]byte("head"), nil, bytes.Repeat([]byte("0123456789"), 100_000), {}, []byte("middle"), bytes.Repeat([]byte("ab"), 300_000), []byte("end")}
	want := bytes.Join(pieces, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, err := c.WriteAll(pieces...); n != len(want) || err != nil {
			t.Errorf("wrote %d of %d bytes: %v", n, len(want), err)
		}
		if n, err := c.WriteAll(); n != 0 || err != nil {
			t.Errorf("wrote %d bytes of nothing: %v", n, err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	got, err := io.ReadAll(far)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d of %d bytes, equal: %v, %v", len(got), len(want), bytes.Equal(got, want), err)
	}
	wg.Wait()
}

func TestRead(t *testing.T) {
	c, far := pair(t)
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := far.Write(want); err != nil {
			t.Error(err)
		}
		if err := far.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing: %d, %v", n, err)
	}
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d of %d bytes, equal: %v, %v", len(got), len(want), bytes.Equal(got, want), err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF { //nolint:errorlint // the bare value is io.Reader's contract
		t.Errorf("behind the end: %d, %v", n, err)
	}
	wg.Wait()
}

// Pieces of concurrent calls do not mix, and each read belongs to one caller.
func TestConcurrent(t *testing.T) {
	const lines, line = 400, 1000
	c, far := pair(t)
	var wg sync.WaitGroup
	for _, letter := range []byte("abcd") {
		wg.Go(func() {
			b := bytes.Repeat([]byte{letter}, line)
			for range lines {
				if _, err := c.WriteAll(b[:line/3], b[line/3:]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		if _, err := io.Copy(far, io.LimitReader(far, 4*lines*line)); err != nil {
			t.Error(err)
		}
		if err := far.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	var mu sync.Mutex // guards read
	var read int
	for range 3 {
		wg.Go(func() {
			b := make([]byte, line)
			for {
				n, err := c.Read(b)
				if bytes.ContainsAny(b[:n], "\x00") {
					t.Error("bytes were not read")
				}
				clear(b)
				mu.Lock()
				read += n
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if read != 4*lines*line {
		t.Errorf("read %d bytes of %d", read, 4*lines*line)
	}
}

// What ends a call is told as net does.
func TestErrors(t *testing.T) {
	buf := make([]byte, 1<<20)
	for name, c := range map[string]struct {
		end  func(c *Conn, far *net.TCPConn) error
		want error
	}{
		"read deadline":  {func(c *Conn, _ *net.TCPConn) error { return c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) }, os.ErrDeadlineExceeded},
		"write deadline": {func(c *Conn, _ *net.TCPConn) error { return c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) }, os.ErrDeadlineExceeded},
		"close":          {func(c *Conn, _ *net.TCPConn) error { return c.Close() }, net.ErrClosed},
		"reset":          {func(_ *Conn, far *net.TCPConn) error { return errors.Join(far.SetLinger(0), far.Close()) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c1, far := pair(t)
			result := make(chan error, 1)
			go func() {
				var err error
				for err == nil {
					if name == "write deadline" {
						_, err = c1.Write(buf)
					} else {
						_, err = c1.Read(buf)
					}
				}
				result <- err
			}()
			if err := c.end(c1, far); err != nil {
				t.Fatal(err)
			}
			err := <-result
			failed, ok := errors.AsType[*net.OpError](err)
			if !ok || c.want != nil && !errors.Is(err, c.want) || failed.Timeout() != (c.want == os.ErrDeadlineExceeded) { //nolint:errorlint // from the table
				t.Errorf("%v", err)
			}
			if ok && failed.Op != "read" && failed.Op != "write" {
				t.Errorf("op is %q", failed.Op)
			}
		})
	}
}

// A deadline that was put off ends a call no sooner, and one that is moved ahead
// while the call waits does.
func TestMovedDeadlines(t *testing.T) {
	const soon = 2 * time.Millisecond
	buf := bytes.Repeat([]byte("0123456789"), 100_000)
	for name, c := range map[string]struct {
		first, then time.Duration // 0: none
		ahead       bool          // then is set while the call waits
		want        error
	}{
		"put off":       {first: soon, then: time.Hour},
		"lifted":        {first: soon},
		"over, put off": {first: -soon, then: time.Hour},
		"put off a bit": {first: soon, then: 5 * soon, want: os.ErrDeadlineExceeded},
		"over":          {first: soon, then: -soon, want: os.ErrDeadlineExceeded},
		"moved ahead":   {first: time.Hour, then: soon, ahead: true, want: os.ErrDeadlineExceeded},
		"ended":         {first: time.Hour, then: -soon, ahead: true, want: os.ErrDeadlineExceeded},
		"set":           {then: soon, ahead: true, want: os.ErrDeadlineExceeded},
	} {
		at := func(d time.Duration) time.Time {
			if d == 0 {
				return time.Time{}
			}
			return time.Now().Add(d)
		}
		for _, write := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, write %v", name, write), func(t *testing.T) {
				near, far := pair(t)
				call, set := func() (int, error) { return near.Read(buf[:1]) }, near.SetReadDeadline
				if write {
					call, set = func() (int, error) { return near.WriteAll(buf, buf, buf, buf, buf) }, near.SetWriteDeadline
				}
				began := time.Now()
				if err := set(at(c.first)); err != nil {
					t.Fatal(err)
				}
				if !c.ahead {
					if err := set(at(c.then)); err != nil {
						t.Fatal(err)
					}
				}
				result := make(chan error, 1)
				go func() {
					n, err := call()
					if err == nil && write && n != 5*len(buf) {
						err = fmt.Errorf("wrote %d bytes", n)
					}
					result <- err
				}()
				time.Sleep(2 * soon)
				if c.ahead {
					if err := set(at(c.then)); err != nil {
						t.Fatal(err)
					}
				}
				if c.want == nil {
					select {
					case err := <-result:
						t.Fatalf("ended: %v", err)
					default:
					}
					if write {
						go func() { _, _ = io.Copy(io.Discard, far) }()
					} else if _, err := far.Write([]byte("x")); err != nil {
						t.Fatal(err)
					}
				}
				if err := <-result; !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if took := time.Since(began); c.want != nil && took < c.then {
					t.Errorf("ended after %v, not %v", took, c.then)
				}
			})
		}
	}
}

// What copies from or to the connection heeds deadlines that were put off, too.
func TestCopiesGoByTheMovedDeadline(t *testing.T) {
	near, far := pair(t)
	if err := errors.Join(near.SetDeadline(time.Now().Add(time.Millisecond)), near.SetDeadline(time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(5 * time.Millisecond)
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes arrived, %v", len(got), err)
		}
		if _, err := far.Write(sent); err != nil {
			t.Error(err)
		}
		if err := far.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	if n, err := io.Copy(near, io.MultiReader(bytes.NewReader(sent))); n != int64(len(sent)) || err != nil {
		t.Errorf("sent %d bytes, %v", n, err)
	}
	if err := near.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, near); n != int64(len(sent)) || err != nil {
		t.Errorf("got %d bytes, %v", n, err)
	}
	wg.Wait()
}
