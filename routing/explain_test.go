package routing

import (
	"fmt"
	"testing"
)

// Explain says the truth about who a prompt that nobody holds may go to: the first of those behind its level that may be
// chosen at all.
func TestExplainTellsWhoIsLookedAt(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 8, adaptive()), hotRun{"s", 0, 8}, hotRun{"sa", 1, 2}))
	b.SetReplicas(0, true, 0)
	b.report(Refused)
	for i := range 20 {
		for _, letters := range []string{fmt.Sprintf("sa%c", 'A'+i), fmt.Sprintf("s%c", 'A'+i)} {
			pl, may, n := b.auto(letters), map[string]bool{}, 0
			for _, x := range b.Explain(&pl, b.now) {
				may[x.Backend.ID] = x.Eligible && !x.Beyond
				if may[x.Backend.ID] {
					n++
				}
			}
			if l := b.send(letters); !may[l.Backend.ID] || n == 0 || n > 4 || letters[1] == 'a' && n > 2 {
				t.Errorf("%s went to %s; looked at: %v", letters, l.Backend.ID, may)
			}
		}
	}
}
