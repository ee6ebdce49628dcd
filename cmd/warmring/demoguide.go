package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"text/template"
	"time"

	"github.com/warmring/warmring/api/admin"
)

// demoPrompts is how many different prompts the routers are asked about to see whether they agree.
const demoPrompts = 50

// present prints what to try and, if asked for, sends the load.
func (d *demo) present(ctx context.Context, routers []*demoRouter, out io.Writer) error {
	awaitTable(ctx, routers)
	agreed, err := compareHomes(ctx, routers)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the demo was stopped meanwhile
		}
		return err
	}
	guide, err := template.New("guide").Parse(demoGuide)
	if err != nil {
		return err
	}
	type row struct {
		Name, API, Admin string
		PID              int
	}
	rows := make([]row, len(routers))
	var bases []string
	for i, r := range routers {
		rows[i] = row{r.name, r.api, r.admin, r.pid}
		bases = append(bases, "http://"+r.api)
	}
	err = guide.Execute(out, map[string]any{"Routers": rows, "First": rows[0], "Agreed": agreed, "Backends": d.backends, "Model": demoModel})
	if err != nil || !d.load {
		return err
	}
	if err := runLoad(ctx, bases, out); err != nil && ctx.Err() == nil { // else it was stopped on purpose
		return err
	}
	return nil
}

// awaitTable waits for the first hot table, with which homes change once, but not for long.
func awaitTable(ctx context.Context, routers []*demoRouter) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, r := range routers {
		c := client{admin: "http://" + r.admin}
		for {
			var s admin.Status
			if answer, err := c.do(ctx, http.MethodGet, "/admin/v1/status", nil); err == nil && json.Unmarshal(answer, &s) == nil && s.HotRuns != nil {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// compareHomes asks every router where it would send the same prompts, and returns what they agree on in words.
func compareHomes(ctx context.Context, routers []*demoRouter) (string, error) {
	epoch := ""
	for i := range demoPrompts {
		home := ""
		body := fmt.Appendf(nil, `{"model": %q, "messages": [{"role": "user", "content": "prompt %d"}]}`, demoModel, i)
		for _, r := range routers {
			c := client{admin: "http://" + r.admin}
			answer, err := c.do(ctx, http.MethodPost, "/admin/v1/explain?kind=chat", body)
			if err != nil {
				return "", fmt.Errorf("%s: %w", r.name, err)
			}
			var e admin.Explanation
			if err := json.Unmarshal(answer, &e); err != nil {
				return "", fmt.Errorf("%s: %w", r.name, err)
			}
			if home != "" && (e.Home != home || e.Epoch != epoch) {
				return fmt.Sprintf("They do not agree (yet): %s has epoch %s and home %s for prompt %d, another has epoch %s and home %s.",
					r.name, e.Epoch, e.Home, i, epoch, home), nil
			}
			home, epoch = e.Home, e.Epoch
		}
	}
	if len(routers) == 1 {
		return fmt.Sprintf("It has epoch %s.", epoch), nil
	}
	return fmt.Sprintf("They agree: epoch %s, and the same home for each of %d prompts.", epoch, demoPrompts), nil
}

const demoGuide = `warmring demo: {{len .Routers}} router{{if gt (len .Routers) 1}}s{{end}}, {{.Backends}} simulated model servers. Ctrl-C stops it.
{{.Agreed}}
{{range .Routers}}
  {{.Name}}       http://{{.API}}/v1   dashboard http://{{.Admin}}/ui/   pid {{.PID}}{{end}}

  model        "{{.Model}}", any API key
  admin API    http://{{.First.Admin}}/admin/v1/status
  metrics      http://{{.First.Admin}}/metrics

Ask two questions about one document. Both go to the same server, and the second finds the document in its cache:

  DOC=$(printf 'All happy families are alike. %.0s' $(seq 300))
  for Q in Who? Why?; do
    curl -si http://{{.First.API}}/v1/chat/completions -H 'Content-Type: application/json' -d "{\"model\": \"{{.Model}}\",
      \"messages\": [{\"role\": \"system\", \"content\": \"$DOC\"}, {\"role\": \"user\", \"content\": \"$Q\"}]}" |
    grep -oiE 'X-Warmring-(Backend|Home|Epoch|Decision).*|"prompt_tokens":[0-9]*|"cached_tokens":[0-9]*'
  done
{{if gt (len .Routers) 1}}
Ask another router: home and epoch are the same. Kill one, also the leader: the others do not lose a request.

  warmring members  --admin http://{{.First.Admin}}
  kill -9 {{.First.PID}}
{{end}}
  warmring status   --admin http://{{.First.Admin}}
  warmring backends --admin http://{{.First.Admin}}

With the OpenAI SDK for Python:

  from openai import OpenAI
  client = OpenAI(base_url="http://{{.First.API}}/v1", api_key="none")
  print(client.responses.create(model="{{.Model}}", input="Hello").output_text)

Headers of each answer say who gave it: X-Warmring-Backend, and why: X-Warmring-Decision.
`
