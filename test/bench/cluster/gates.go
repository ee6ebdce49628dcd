package main

import (
	"fmt"

	"github.com/warmring/warmring/test/bench/sheet"
)

// gate is the most that a figure may be, in every case in which it was measured.
type gate struct {
	Name     string  `json:"name"`
	Limit    float64 `json:"limit"`
	Measured float64 `json:"measured"` // the worst case
	Unit     string  `json:"unit"`
	Reached  bool    `json:"reached"`
}

// bar is a gate before it is applied: the largest value of a column must not exceed the limit.
type bar struct {
	name, table, column, unit string
	limit                     float64
}

func bars() []bar {
	return []bar{
		{"epoch visible everywhere, p99 from the write's start", "epochs", "start_p99_ms", "ms", 250},
		{"epochs that were not visible everywhere in time", "epochs", "lost", "", 0},
		{"age of the view, p99", "view", "p99_ms", "ms", 250},
		{"false overflow beyond one replica's", "overflow", "false_points", "points", 1},
		{"failed requests under load", "overflow", "failed", "", 0},
		{"keys with two homes at once", "keys", "unequal", "", 0},
		{"keys that moved without need", "keys", "needless", "", 0},
		{"kill of the leader to the next epoch (5 s + an election)", "leader", "max_s", "s", 6},
		{"failed requests on the other routers", "leader", "failed", "", 0},
		{"heal after a partition", "heal", "max_s", "s", 30},
	}
}

// judge applies the bars of the experiments that ran.
func judge(tables []table) []gate {
	var gates []gate
	for _, b := range bars() {
		for _, t := range tables {
			if t.Name == b.table {
				gates = append(gates, b.apply(t))
			}
		}
	}
	return gates
}

func (b bar) apply(t table) gate {
	g := gate{Name: b.name, Limit: b.limit, Unit: b.unit}
	measured := false
	for _, r := range t.Rows {
		if v, ok := r.Values[b.column]; ok {
			g.Measured, measured = max(g.Measured, v), true
		}
	}
	g.Reached = measured && g.Measured <= b.limit
	return g
}

func verdicts(gates []gate) string {
	if len(gates) == 0 {
		return ""
	}
	lines := make([][]string, len(gates))
	for i, g := range gates {
		word := "NOT REACHED"
		if g.Reached {
			word = "reached"
		}
		lines[i] = []string{word, g.Name, figure(g.Measured), "at most", figure(g.Limit), g.Unit}
	}
	return fmt.Sprintf("\nGates (worst case)\n%s", sheet.Grid(lines, 2))
}
