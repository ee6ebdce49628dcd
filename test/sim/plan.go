package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Action is what a step of a plan does.
type Action string

// The actions. Those with two groups of hosts are faults of the links between them.
const (
	Kill      Action = "kill"      // processes; For: until they are started again
	Move      Action = "move"      // processes to other addresses
	Pause     Action = "pause"     // what arrives at hosts, For so long
	Clock     Action = "clock"     // jumps by Delay
	Split     Action = "split"     // nothing passes
	OneWay    Action = "oneway"    // nothing passes from the first group to the second
	BlackHole Action = "blackhole" // dials succeed, nothing else passes
	Datagrams Action = "datagrams" // no datagram passes
	Streams   Action = "streams"   // no stream passes
	Slow      Action = "slow"      // Delay and Loss from the first group to the second
)

// links says whether the action is about the links between two groups; ok: whether there is such an action.
func (a Action) links() (links, ok bool) {
	switch a {
	case Kill, Move, Pause, Clock:
		return false, true
	case Split, OneWay, BlackHole, Datagrams, Streams, Slow:
		return true, true
	default:
		return false, false
	}
}

// Step is one fault.
type Step struct {
	At    time.Duration // from the start of the plan
	Do    Action
	Hosts []string      // by name
	Other []string      // the second group, for links
	Delay time.Duration // Slow, Clock
	Loss  float64       // Slow: 0 to 1
	For   time.Duration // then it is healed; 0: never
}

// Plan is faults to come. It is data: it is made before a run, printed, and can be pasted into a test and shortened.
type Plan []Step

// String is the form that ParsePlan reads, such as "4s split n00,n03|n01 for 11s; 18s kill n02 for 6s".
func (p Plan) String() string {
	texts := make([]string, len(p))
	for i, s := range p {
		texts[i] = s.String()
	}
	return strings.Join(texts, "; ")
}

// String is the form that ParsePlan reads.
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s %s", s.At, s.Do, strings.Join(s.Hosts, ","))
	if len(s.Other) > 0 {
		b.WriteString("|" + strings.Join(s.Other, ","))
	}
	if s.Delay != 0 {
		fmt.Fprintf(&b, " delay %v", s.Delay)
	}
	if s.Loss != 0 {
		fmt.Fprintf(&b, " loss %v", s.Loss)
	}
	if s.For != 0 {
		fmt.Fprintf(&b, " for %v", s.For)
	}
	return b.String()
}

// ParsePlan reads steps with semicolons or newlines between them: when, what, who (two groups with | between them), then
// "delay 5ms", "loss 0.1" and "for 3s" where they make sense.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		s, err := parseStep(words)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
		p = append(p, s)
	}
	return p, nil
}

func parseStep(words []string) (s Step, err error) {
	if len(words) < 3 || len(words)%2 == 0 {
		return s, errors.New("want when, what, who, and pairs such as for 3s")
	}
	if s.At, err = time.ParseDuration(words[0]); err != nil {
		return s, err
	}
	s.Do = Action(words[1])
	links, ok := s.Do.links()
	if !ok {
		return s, fmt.Errorf("there is no action %q", s.Do)
	}
	first, second, two := strings.Cut(words[2], "|")
	if two != links {
		return s, fmt.Errorf("%s with a wrong number of groups", s.Do)
	}
	s.Hosts = strings.Split(first, ",")
	if two {
		s.Other = strings.Split(second, ",")
	}
	for i := 3; i < len(words); i += 2 {
		if err := s.set(words[i], words[i+1]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// set reads one pair.
func (s *Step) set(key, value string) (err error) {
	switch key {
	case "delay":
		s.Delay, err = time.ParseDuration(value)
	case "for":
		s.For, err = time.ParseDuration(value)
	case "loss":
		s.Loss, err = strconv.ParseFloat(value, 64)
	default:
		err = fmt.Errorf("there is no %q", key)
	}
	return err
}
