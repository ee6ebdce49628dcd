package workload

// unique never repeats anything.
func unique(m *maker) func() []Turn {
	return func() []Turn {
		prompt := m.segment(User, m.lognormal(4000, 0.5, 200, 16000))
		return []Turn{m.turn(m.lognormal(150, 0.6, 16, 600), prompt)}
	}
}

// single is one prompt again and again.
func single(m *maker) func() []Turn {
	prompt := m.segment(User, 2010)
	return func() []Turn {
		return []Turn{m.turn(m.lognormal(150, 0.6, 16, 600), prompt)}
	}
}

// grow is chains of prompts, each step tokens longer than the one before it in its chain. It does not wait for the answer,
// and begins anew at 32,000 tokens.
func grow(m *maker, chains, step int) func() []Turn {
	const most = 32_000
	texts, lengths := make([]Segment, chains), make([]int, chains)
	return func() []Turn {
		k := m.IntN(chains)
		if lengths[k] += step; lengths[k] > most || texts[k].Tokens == 0 {
			texts[k], lengths[k] = m.segment(User, most), step
		}
		return []Turn{m.turn(m.lognormal(60, 0.5, 8, 200), texts[k].upTo(lengths[k]), m.segment(User, 5))}
	}
}

// tenants is questions to documents of 13 tenants, the first of which has this share of them.
func tenants(m *maker, share float64) func() []Turn {
	const documents = 60
	system := m.segment(System, 608)
	var tenant [13]Segment
	var texts [len(tenant)][documents]Segment
	for i := range tenant {
		tenant[i] = m.segment(System, 1504)
		for k := range documents {
			texts[i][k] = m.segment(User, m.document())
		}
	}
	others, read := newZipf(len(tenant)-1, 0.5), newZipf(documents, 0.8)
	return func() []Turn {
		i := 0
		if m.Float64() >= share {
			i = 1 + others.draw(m)
		}
		question := m.segment(User, m.lognormal(90, 0.7, 10, 600))
		return []Turn{m.turn(m.lognormal(160, 0.6, 16, 600), system, tenant[i], texts[i][read.draw(m)], question)}
	}
}

// fashion gives a share of the requests to one of 24 long prefixes, the next one every period seconds; the rest goes by Zipf
// to many.
func fashion(m *maker, share, period float64) func() []Turn {
	hot := m.systems(24, 8000)
	others := m.systems(900, 4000)
	popular := newZipf(len(others), 0.9)
	return func() []Turn {
		text := others[popular.draw(m)]
		if m.Float64() < share {
			text = hot[int(m.now.Seconds()/period)%len(hot)]
		}
		question := m.segment(User, m.lognormal(200, 0.7, 20, 2000))
		return []Turn{m.turn(m.lognormal(120, 0.5, 16, 400), text, question)}
	}
}
