package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

type composed struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Build       any               `yaml:"build"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Ports       []string          `yaml:"ports"`
		Grace       time.Duration     `yaml:"stop_grace_period"`
	} `yaml:"services"`
}

func TestCompose(t *testing.T) {
	var all composed
	if err := yaml.Unmarshal([]byte(read(t, "compose/compose.yaml")), &all); err != nil {
		t.Fatal(err)
	}
	file := read(t, "compose/warmring.yaml")
	var routers, scraped, built []string
	for _, name := range sorted(all.Services) {
		service := all.Services[name]
		if service.Image != "warmring" {
			continue
		}
		if service.Build != nil {
			built = append(built, name)
		}
		if len(service.Command) > 0 {
			accepts(t, service.Command)
			continue
		}
		variables(t, service.Environment)
		cfg := load(t, file, service.Environment)
		if cfg.Router.Name != name {
			t.Errorf("%s calls itself %q", name, cfg.Router.Name)
		}
		timely(t, cfg, 0, service.Grace)
		api, admin, peer := ports(t, cfg)
		routers = append(routers, name+":"+peer)
		scraped = append(scraped, name+":"+admin)
		for _, p := range service.Ports {
			if inside := p[strings.LastIndex(p, ":")+1:]; inside != api && inside != admin {
				t.Errorf("%s publishes %s, and listens on %s and %s", name, p, api, admin)
			}
		}
		if endpoint := service.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"]; endpoint != "http://collector:4317" || all.Services["collector"].Image == "" {
			t.Errorf("%s sends its spans to %q", name, endpoint)
		}
	}
	if len(built) != 1 {
		t.Errorf("%v build one image: it has one name, and builds at the same time fail", built)
	}
	cfg := load(t, file, nil)
	if join := slices.Sorted(slices.Values(cfg.Cluster.Join)); !slices.Equal(join, routers) || len(routers) != cfg.Cluster.Expect {
		t.Errorf("the routers are %v, they join %v, and expect %d", routers, join, cfg.Cluster.Expect)
	}
	for _, b := range cfg.Backends {
		host, _, _ := strings.Cut(strings.TrimPrefix(b.URL, "http://"), ":")
		if command := strings.Join(all.Services[host].Command, " "); !strings.Contains(command, "--port 8000") || !strings.HasSuffix(b.URL, ":8000") {
			t.Errorf("%s is at %s, whose command is %q", b.ID, b.URL, command)
		}
	}
	if prometheus := read(t, "compose/prometheus.yaml"); !strings.Contains(prometheus, fmt.Sprintf("[%s]", strings.Join(scraped, ", "))) {
		t.Errorf("Prometheus does not scrape %v", scraped)
	}
}
