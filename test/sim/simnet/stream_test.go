package simnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// three is a network with the hosts a, b and c.
func three() *Network {
	n := New(Default())
	for _, name := range []string{"a", "b", "c"} {
		n.Host(name)
	}
	return n
}

// fixed is a network whose packets all take 1 ms.
func fixed() *Network {
	cfg := Default()
	cfg.Jitter = 0
	n := New(cfg)
	n.Host("a")
	n.Host("b")
	return n
}

// pair connects a to b.
func pair(t *testing.T, n *Network) (client, server *Conn) {
	t.Helper()
	l, err := n.Host("b").Listen(t.Context(), "tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	c, err := n.Host("a").Dial(t.Context(), "tcp", "b:80")
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return c.(*Conn), s.(*Conn)
}

func mustWrite(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func mustRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

// within fails unless f took from..to.
func within(t *testing.T, from, to time.Duration, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took < from || took > to {
		t.Errorf("took %v, want %v to %v", took, from, to)
	}
}

func readError(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}

func writeError(c net.Conn) error {
	_, err := c.Write([]byte("x"))
	return err
}

func TestBytesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		r := rand.New(rand.NewPCG(1, 2))
		sent := make([]byte, 2<<20) // eight windows
		for i := range sent {
			sent[i] = byte(r.Uint32())
		}
		go func() {
			for rest := sent; len(rest) > 0; {
				size := min(len(rest), 1+r.IntN(100_000))
				if _, err := client.Write(rest[:size]); err != nil {
					t.Error(err)
				}
				rest = rest[size:]
			}
			_ = client.Close()
		}()
		got, err := io.ReadAll(server)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came, %v; %d were sent", len(got), err, len(sent))
		}
		_ = server.Close()
	})
}

func TestLaterBytesWaitForEarlierOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		slow := n.Slow(Group{n.Host("a")}, Group{n.Host("b")}, time.Second, 0)
		mustWrite(t, client, "first ")
		slow.Heal()
		mustWrite(t, client, "second")
		within(t, time.Second, 1002*time.Millisecond, func() { mustRead(t, server, "first second") })
	})
}

func TestDelayIsTheLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t, fixed())
		mustWrite(t, client, "x")
		within(t, time.Millisecond, time.Millisecond, func() { mustRead(t, server, "x") })
	})
}

func TestAFullWindowBlocksTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		window := Default().Window
		done := make(chan error, 1)
		go func() {
			_, err := client.Write(make([]byte, window+1))
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the write of one byte more than the window ended: %v", err)
		default:
		}
		mustRead(t, server, "\x00")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		_ = server.SetReadDeadline(time.Now().Add(time.Second))
		within(t, time.Second, time.Second, func() {
			if err := readError(server); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
		})
		var timeout net.Error
		if err := readError(server); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("not a timeout: %v", err)
		}
		_ = server.SetReadDeadline(time.Time{})
		mustWrite(t, client, "x")
		mustRead(t, server, "x")

		_ = client.SetWriteDeadline(time.Now().Add(time.Second))
		wrote, err := client.Write(make([]byte, 1<<20))
		if wrote != Default().Window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d, %v", wrote, err)
		}

		time.AfterFunc(time.Second, func() { _ = client.SetReadDeadline(time.Unix(1, 0)) })
		within(t, time.Second, time.Second, func() {
			if err := readError(client); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a deadline in the past does not end a read: %v", err)
			}
		})
	})
}

func TestHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		mustWrite(t, client, "question")
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(server); string(got) != "question" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if err := writeError(client); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write after CloseWrite: %v", err)
		}
		mustWrite(t, server, "answer")
		_ = server.Close()
		if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestOwnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, _ := pair(t, n)
		time.AfterFunc(time.Second, func() { _ = client.Close() })
		within(t, time.Second, time.Second, func() {
			if err := readError(client); !errors.Is(err, net.ErrClosed) {
				t.Errorf("read: %v", err)
			}
		})
		if err := writeError(client); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write: %v", err)
		}
		if err := client.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
	})
}

// A write after the peer's close is accepted; the reset that it causes ends both directions a round trip later.
func TestAWriteAfterThePeersCloseMeetsAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t, fixed())
		_ = server.Close()
		time.Sleep(10 * time.Millisecond)
		mustWrite(t, client, "lost")
		time.Sleep(1999 * time.Microsecond)
		mustWrite(t, client, "lost too")
		time.Sleep(time.Microsecond)
		if err := writeError(client); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: %v", err)
		}
		if err := readError(client); err != io.EOF { //nolint:errorlint // io.Reader's contract
			t.Errorf("what came before the reset is not read: %v", err)
		}
	})
}

// Closing with something unread sends a reset, and a reader that waits meets it.
func TestCloseWithUnreadBytesResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t, fixed())
		mustWrite(t, client, "nobody reads this")
		time.Sleep(time.Second)
		_ = server.Close()
		within(t, time.Millisecond, time.Millisecond, func() {
			if err := readError(client); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
		})
		if err := writeError(client); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: %v", err)
		}
	})
}

func TestBytesThatArriveAfterTheCloseMeetAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pair(t, fixed())
		mustWrite(t, client, "on its way")
		_ = server.Close()
		if err := readError(client); err != io.EOF { //nolint:errorlint // io.Reader's contract
			t.Errorf("read: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := writeError(client); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: %v", err)
		}
	})
}

func TestLingerZeroResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		_ = server.SetLinger(0)
		_ = server.Close()
		if err := readError(client); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
	})
}

func TestAWriterThatWaitsMeetsTheReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		time.AfterFunc(time.Second, func() { _ = server.Close() })
		within(t, time.Second, time.Second+4*time.Millisecond, func() {
			if _, err := client.Write(make([]byte, 1<<20)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("write: %v", err)
			}
		})
	})
}

func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		within(t, 2*time.Millisecond, 4*time.Millisecond, func() {
			if _, err := n.Host("a").Dial(t.Context(), "tcp", "b:81"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dial: %v", err)
			}
		})
		if _, err := n.Host("a").Dial(t.Context(), "tcp", "10.9.9.9:81"); !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("dial of an address that nobody has: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Host("a").Dial(ctx, "tcp", "10.9.9.9:81"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial with a limit: %v", err)
		}
	})
}

func TestAddressesToListenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		a, b := n.Host("a"), n.Host("b")
		for _, tt := range []struct {
			listen, own, other string // the dials; "": refused
		}{
			{"127.0.0.1:1", "127.0.0.1:1", ""},
			{":2", "localhost:2", "b:2"},
			{"0.0.0.0:3", b.IP().String() + ":3", b.IP().String() + ":3"},
			{"b:4", "b:4", "b:4"},
		} {
			l, err := b.Listen(t.Context(), "tcp", tt.listen)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Listen(t.Context(), "tcp", tt.listen); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%s twice: %v", tt.listen, err)
			}
			if _, err := b.Dial(t.Context(), "tcp", tt.own); err != nil {
				t.Errorf("%s from the host itself: %v", tt.listen, err)
			}
			if tt.other == "" {
				tt.other = b.IP().String() + tt.listen[len("127.0.0.1"):]
				if _, err := a.Dial(t.Context(), "tcp", tt.other); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s from another host: %v", tt.listen, err)
				}
			} else if _, err := a.Dial(t.Context(), "tcp", tt.other); err != nil {
				t.Errorf("%s from another host: %v", tt.listen, err)
			}
			_ = l.Close()
		}
		if _, err := b.Listen(t.Context(), "tcp", a.IP().String()+":5"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("another host's address: %v", err)
		}
		one, err1 := b.Listen(t.Context(), "tcp", "127.0.0.1:0")
		two, err2 := b.Packets(t.Context(), "udp", "127.0.0.1:0")
		if err1 != nil || err2 != nil || one.Addr().(*net.TCPAddr).Port == 0 || two.LocalAddr().(*net.UDPAddr).Port == 0 {
			t.Errorf("port 0: %v %v, %v %v", one, two, err1, err2)
		}
		_, _ = one.Close(), two.Close()
	})
}

// An accepted connection that nobody took is reset when the listener goes.
func TestClosingAListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		l, err := n.Host("b").Listen(t.Context(), "tcp", ":80")
		if err != nil {
			t.Fatal(err)
		}
		c, err := n.Host("a").Dial(t.Context(), "tcp", "b:80")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if err := readError(c); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
	})
}
