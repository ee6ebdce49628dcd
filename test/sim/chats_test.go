package sim

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// chats are conversations that grow, behind shared system prompts.
type chats struct {
	w      *World
	c      *Cluster
	ask    *caller
	system []string // the first half of the chats has the first of two, and so on
	calm   time.Time

	mu        sync.Mutex // guards what follows
	hectic    tally      // of all turns but each chat's first, those that began before calm; again is by chat
	calmly    tally      // and after it
	overflown int        // of all turns: neither at home nor where the chat was
}

const (
	chatTurns  = 10
	chatTokens = 8 // of an answer: it takes some 0.9 s
)

// run begins n chats one after the other within some time, and returns when all are over.
func (s *chats) run(n int, within time.Duration) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			time.Sleep(within * time.Duration(i) / time.Duration(n))
			s.chat(i, s.system[i*len(s.system)/n], rand.New(rand.NewPCG(s.w.Seed, uint64(i))))
		})
	}
	all.Wait()
}

// chat is one conversation: each turn has all that was said before, and comes to any router.
func (s *chats) chat(i int, system string, random *rand.Rand) {
	said := []message{{"system", system}}
	var last answer
	for turn := range chatTurns {
		said = append(said, message{"user", padded(fmt.Sprintf("%s turn %d:", s.w.caption(i), turn), 500+random.IntN(2500))})
		tally := &s.hectic
		if time.Now().After(s.calm) {
			tally = &s.calmly
		}
		a := s.turn(streamed(chatTokens, said...), random)
		s.count(tally, &last, &a)
		said, last = append(said, message{"assistant", a.said()}), a
		time.Sleep(time.Duration(random.ExpFloat64() * float64(2*time.Second)))
	}
}

// turn asks a router that is ready, and another one if that one leaves just then.
func (s *chats) turn(body string, random *rand.Rand) (a answer) {
	for range 3 {
		if a = s.ask.post(pick(s.c.Routers, random.IntN(len(s.c.Routers))), body); a.status == http.StatusOK {
			return a
		}
	}
	s.w.Errorf("no answer: %+v", a)
	return a
}

// count takes what was asked and answered before for what could be cached.
func (s *chats) count(t *tally, before, a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.backend != a.home && a.backend != before.backend {
		s.overflown++
	}
	if before.backend == "" {
		return
	}
	_, cached := a.usage()
	could, _ := before.usage()
	t.add(a, before.backend, could+chatTokens, cached)
}

// said is the text of a streamed answer.
func (a *answer) said() string {
	var b strings.Builder
	for _, part := range strings.Split(a.text, `"content":"`)[1:] {
		text, _, _ := strings.Cut(part, `"`)
		b.WriteString(text)
	}
	return b.String()
}

// Chats of ten turns, so many that home is often not the best place for one that begins, stay where they are, and what was
// said is cached. Their system prompts are hot on all servers and nobody's pin. While these become hot, and a router restarts,
// more of them move, since few servers have too much to do for a while.
func TestChatsStayWhileTheyGrow(t *testing.T) {
	Run(t, Options{Seeds: 2, Most: 10}, func(w *World) {
		const servers = 4
		c := w.Cluster(3, w.Models(servers, coarse), w.salted())
		w.settle(c)
		s := chats{
			w: w, c: c, ask: w.caller(), calm: time.Now().Add(30 * time.Second),
			system: []string{padded("Be brief.", 1500), padded("Be nice.", 2500)},
		}
		w.background.Go(func() {
			time.Sleep(15 * time.Second)
			c.Routers[1].Stop()
			c.Routers[1].Restart()
		})
		s.run(100, 20*time.Second)
		w.Logf("at first %s", &s.hectic)
		w.Logf("later %s; %d turns went elsewhere", &s.calmly, s.overflown)
		if s.hectic.moves() > 0.16 || s.hectic.hits() < 0.94 || s.calmly.moves() > 0.05 || s.calmly.hits() < 0.97 {
			w.Errorf("chats move: at first %s; later %s", &s.hectic, &s.calmly)
		}
		if s.overflown < 30 {
			w.Errorf("only %d turns went elsewhere: there is no pressure", s.overflown)
		}
		w.homesBehind(c, s.system, servers)
	})
}

// homesBehind checks that beginnings are hot on all servers, and that what comes after them decides about the home.
func (w *World) homesBehind(c *Cluster, beginnings []string, servers int) {
	for _, system := range beginnings {
		homes := map[string]bool{}
		for i := range 100 {
			place := w.place(c.Routers[0].Node().Epoch(), streamed(1, message{"system", system}, message{"user", w.caption(i)}))
			homes[place.Home()] = true
			if levels := place.Levels(); len(levels) == 0 || levels[0].Servers != servers {
				w.Fatalf("%.10q... is hot as %+v, want %d servers", system, levels, servers)
			}
		}
		if len(homes) != servers {
			w.Errorf("100 chats behind %.10q... live on %v", system, homes)
		}
	}
}
