package sheet

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine is what a reader needs to compare two reports.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

// ThisMachine describes the machine before a run; what cannot be read is "unknown".
func ThisMachine() Machine {
	return Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Kernel: firstLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(),
		LoadBefore: LoadAverage(),
	}
}

// String is one line, with the load before the run.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, Linux %s, %s, load average %s", m.CPU, m.Cores, m.Kernel, m.Go, m.LoadBefore)
}

// LoadAverage is the kernel's, over 1, 5 and 15 minutes.
func LoadAverage() string {
	fields := strings.Fields(firstLine("/proc/loadavg"))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func cpuModel() string {
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstLine(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return line
}
