package sim

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
)

// Of three voters two have an epoch. One of them returns without its log, under its old name and address, and the other one
// is cut off: the rest must not agree on anything, since it would not know of that epoch. (A new generation, which gives up what only lost
// voters had, is turned off.)
func TestAWipedVoterDoesNotVoteAnEpochAway(t *testing.T) {
	for _, disk := range []bool{false, true} {
		t.Run(map[bool]string{true: "on disk", false: "in memory"}[disk], func(t *testing.T) {
			Run(t, Options{Seeds: 2}, func(w *World) {
				dir, tweak := "", func(*node.Config) {}
				if disk {
					dir = w.t.TempDir()
					tweak = onDisk(dir)
				}
				c := w.Cluster(3, w.Models(1), tweak, func(cfg *node.Config) { cfg.Consensus.NewGenerationAfter = 0 })
				o := w.Operator(c)
				neverTwo(w, c)
				settles(w, "settled", formLimit, c)
				leader := c.Leader()
				wiped, behind := c.Others(leader)[0], c.Others(leader)[1]
				cut := w.Net.Split(HostsOf(behind), HostsOf(leader, wiped))
				w.Soon("an epoch that one voter lacks", commitLimit, o.Writes(wiped))
				wiped.Kill()
				if disk {
					if err := os.RemoveAll(filepath.Join(dir, wiped.Name)); err != nil {
						w.Fatalf("%v", err)
					}
				}
				alone := w.Net.Split(HostsOf(leader), HostsOf(wiped, behind))
				cut.Heal() // its other half is the second cut's now
				wiped.Restart()
				end := time.Now().Add(90 * time.Second)
				for time.Now().Before(end) {
					if l := c.Leader(); l == wiped || l == behind {
						w.Fatalf("%s leads without the epoch that was acknowledged", l.Name)
					}
					time.Sleep(100 * time.Millisecond)
				}
				alone.Heal()
				settles(w, "settled with the voter that is new", healLimit, c)
				o.Kept()
				w.Soon("a write", commitLimit, o.Writes(wiped))
			})
		})
	}
}

// A voter that keeps its log is the same voter again.
func TestAVoterReturnsWithItsLog(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		c := w.Cluster(3, w.Models(1), onDisk(w.t.TempDir()))
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		leader := c.Leader()
		returns, behind := c.Others(leader)[0], c.Others(leader)[1]
		cut := w.Net.Split(HostsOf(behind), HostsOf(leader, returns))
		w.Soon("an epoch that one voter lacks", commitLimit, o.Writes(returns))
		returns.Kill()
		leader.Kill()
		cut.Heal()
		returns.Restart()
		w.Soon("a leader of those two", healLimit, func() bool { return c.Leader() == returns || c.Leader() == behind })
		w.Soon("they have the epoch", time.Second, func() bool { // once the leader has committed anything
			return !slices.ContainsFunc(c.States(), func(s State) bool { return s.Number < 2 })
		})
		o.Kept()
		w.Soon("a write", commitLimit, o.Writes(behind))
		leader.Restart()
		settles(w, "settled", healLimit, c)
		o.Kept()
	})
}

// Of five voters any two lose their logs, at once or one after the other, again and again.
func TestVotersAreWipedUnderWrites(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		c := w.Cluster(5, w.Models(1))
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		for range 2 {
			stop := o.Work(200 * time.Millisecond)
			two, _ := draw(w, c.Routers, 2)
			for _, r := range two {
				time.Sleep(time.Duration(w.Rand.IntN(2)*5) * time.Second)
				r.Kill()
			}
			for _, r := range two {
				time.Sleep(time.Duration(w.Rand.IntN(2)*5) * time.Second)
				r.Restart()
			}
			time.Sleep(40 * time.Second) // their seats go to those who came back: 15 s of silence, then some seconds for each
			if acked, _ := stop(); acked < 50 {
				w.Errorf("%d writes", acked)
			}
			settles(w, "settled", healLimit, c)
			w.Soon("five voters", healLimit, c.seated(5))
			o.Kept()
		}
	})
}
