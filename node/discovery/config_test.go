package discovery

import (
	"strings"
	"testing"
	"time"
)

func entry(name string, port int) DNSConfig {
	var d DNSConfig
	d.SetDefaults()
	d.Name, d.Port = name, port
	return d
}

func TestConfig(t *testing.T) {
	good := Default()
	srv := entry("_vllm._tcp.models", 0)
	srv.SRV = true
	good.DNS = []DNSConfig{entry("models", 8000), srv}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{LeaseMax: time.Millisecond, DNS: []DNSConfig{{}, entry("a", 0), entry("a", 80), srv}}
	bad.DNS[3].Port, bad.DNS[3].Scheme, bad.DNS[3].Weight, bad.DNS[3].Interval = 80, "ftp", -1, 1
	err := bad.Validate()
	for _, want := range []string{
		"discovery.lease_max: ", "discovery.dns[0].name: must not be empty", "discovery.dns[1].port: 0 must be",
		`discovery.dns[2].name: "a" is discovery.dns[1] already`, "discovery.dns[3].port: the SRV records hold the port",
		`discovery.dns[3].scheme: "ftp"`, "discovery.dns[3].weight: -1", "discovery.dns[3].interval: 1ns",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}
