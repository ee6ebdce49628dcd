package deploy

import (
	"maps"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

type workload struct {
	Kind string `yaml:"kind"`
	Spec struct {
		MinReady int    `yaml:"minReadySeconds"`
		Service  string `yaml:"serviceName"`
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Args []string `yaml:"args"`
					Env  []struct {
						Name  string `yaml:"name"`
						Value string `yaml:"value"`
						From  struct {
							Field struct {
								Path string `yaml:"fieldPath"`
							} `yaml:"fieldRef"`
						} `yaml:"valueFrom"`
					} `yaml:"env"`
					Ports []struct {
						Name string `yaml:"name"`
						Port string `yaml:"containerPort"`
					} `yaml:"ports"`
					Lifecycle struct {
						PreStop struct {
							Sleep struct{ Seconds int } `yaml:"sleep"`
						} `yaml:"preStop"`
					} `yaml:"lifecycle"`
					Mounts []struct {
						Path string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				} `yaml:"containers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

// configMap is the configuration in the manifest, by file.
func configMap(t *testing.T) map[string]string {
	t.Helper()
	var m struct {
		Data map[string]string `yaml:"data"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "kubernetes/config.yaml")), &m); err != nil {
		t.Fatal(err)
	}
	return m.Data
}

func TestKubernetes(t *testing.T) {
	files := configMap(t)
	fields := map[string]string{"metadata.name": "warmring-0", "status.podIP": "10.1.2.3"}
	for _, name := range []string{"kubernetes/voters.yaml", "kubernetes/subscribers.yaml"} {
		var w workload
		if err := yaml.Unmarshal([]byte(read(t, name)), &w); err != nil {
			t.Fatal(err)
		}
		pod := w.Spec.Template.Spec
		container := pod.Containers[0]
		env := map[string]string{}
		for _, e := range container.Env {
			env[e.Name] = e.Value + fields[e.From.Field.Path]
			for other, value := range maps.Clone(env) { // $(NAME) is a variable defined before
				env[e.Name] = strings.ReplaceAll(env[e.Name], "$("+other+")", value)
			}
		}
		variables(t, env)
		accepts(t, container.Args)
		cfg := load(t, files["warmring.yaml"], env)
		if cfg.Router.Name != "warmring-0" || cfg.Peer.Advertise != "10.1.2.3" {
			t.Errorf("%s: router %q at %q", name, cfg.Router.Name, cfg.Peer.Advertise)
		}
		if onDisk := cfg.Consensus.DataDir != ""; onDisk != (w.Kind == "StatefulSet") {
			t.Errorf("%s: a %s with data_dir %q", name, w.Kind, cfg.Consensus.DataDir)
		}
		second := time.Second
		timely(t, cfg, time.Duration(container.Lifecycle.PreStop.Sleep.Seconds)*second, time.Duration(pod.Grace)*second)
		api, admin, peer := ports(t, cfg)
		want := map[string]string{"api": api, "admin": admin, "peer-tcp": peer, "peer-udp": peer}
		for _, p := range container.Ports {
			if want[p.Name] != p.Port {
				t.Errorf("%s: port %s is %s, want %q", name, p.Name, p.Port, want[p.Name])
			}
			delete(want, p.Name)
		}
		if len(want) > 0 {
			t.Errorf("%s: no ports %v", name, want)
		}
		for _, file := range []string{cfg.Peer.CertFile, cfg.Peer.KeyFile, cfg.Peer.CAFile, cfg.Gossip.KeyFile, cfg.API.KeysFile, cfg.Admin.TokenFile, cfg.Consensus.DataDir} {
			mounted := file == ""
			for _, m := range container.Mounts {
				mounted = mounted || strings.HasPrefix(file+"/", m.Path+"/")
			}
			if !mounted {
				t.Errorf("%s: nothing is mounted where %s is", name, file)
			}
		}
	}
}

// Routers find each other by a service that lists pods before they are ready, at the port that they listen on.
func TestPeerService(t *testing.T) {
	cfg := load(t, configMap(t)["warmring.yaml"], nil)
	_, _, peer := ports(t, cfg)
	for _, doc := range documents(t, "kubernetes/services.yaml") {
		name, _ := doc["metadata"].(map[string]any)["name"].(string)
		if name != "warmring-peers" {
			continue
		}
		spec, _ := doc["spec"].(map[string]any)
		if spec["publishNotReadyAddresses"] != true || spec["clusterIP"] != "None" {
			t.Errorf("%v", spec)
		}
		if len(cfg.Cluster.Join) != 1 || cfg.Cluster.Join[0] != name+":"+peer {
			t.Errorf("routers join %v", cfg.Cluster.Join)
		}
		return
	}
	t.Error("no service warmring-peers")
}
