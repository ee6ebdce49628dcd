package strict

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

type part struct {
	Name   string  `yaml:"name"`
	Weight float64 `yaml:"weight"`
}

func (p *part) SetDefaults() { p.Weight = 1 }

type document struct {
	Count int           `yaml:"count"`
	On    bool          `yaml:"on"`
	Wait  time.Duration `yaml:"wait"`
	Words []string      `yaml:"words"`
	Parts []part        `yaml:"parts"`
	Deep  struct {
		Parts []part `yaml:"parts"`
	} `yaml:"deep"`
}

// A document means the same in both forms.
func TestBothForms(t *testing.T) {
	want := document{Count: 3, On: true, Wait: time.Minute, Words: []string{"a", "b"}, Parts: []part{{"x", 1}, {"y", 2.5}}}
	want.Deep.Parts = []part{{"\U0001f600/\n", 1e3}}
	var fromYAML, fromJSON document
	if err := YAML(strings.NewReader("count: 3\non: true\nwait: 1m\nwords: [a, b]\nparts: [{name: x}, {name: 'y', weight: 2.5}]\ndeep: {parts: [{name: \"\U0001f600/\\n\", weight: 1000}]}\n"), &fromYAML); err != nil {
		t.Error(err)
	}
	const text = `{"count":3,"on":true,"wait":"1m","words":["a","b"],"parts":[{"name":"x"},{"name":"y","weight":2.5}],"deep":{"parts":[{"name":"\ud83d\ude00\/\n","weight":1e3}]}}`
	if err := JSON([]byte(text), &fromJSON); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, fromYAML); diff != "" {
		t.Errorf("YAML: %s", diff)
	}
	if diff := cmp.Diff(want, fromJSON); diff != "" {
		t.Errorf("JSON: %s", diff)
	}
}

func TestWhatIsNotSaidStays(t *testing.T) {
	for _, text := range []string{`{}`, `{"parts":null,"count":null,"deep":null}`} {
		d := document{Count: 7, Parts: []part{{Name: "kept"}}}
		if err := JSON([]byte(text), &d); err != nil || d.Count != 7 || len(d.Parts) != 1 {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
}

func TestWrongJSON(t *testing.T) {
	for text, want := range map[string]string{
		``:                                    "not whole",
		`{"count":1`:                          "not whole",
		`{"count":1} x`:                       "something follows",
		`{count:1}`:                           "not JSON",
		`{"count":1,}`:                        "not JSON",
		`3`:                                   "must hold fields",
		`{"cuont":1}`:                         "cuont: unknown field; did you mean count?",
		`{"count":1.5}`:                       `count: "1.5" is not a whole number`,
		`{"count":"many"}`:                    `count: "many" is not a whole number`,
		`{"on":"si"}`:                         `on: "si" is not a boolean`,
		`{"count":{}}`:                        "count: must be a single value",
		`{"count":1,"count":2}`:               "count: set already",
		`{"parts":{}}`:                        "parts: must be a list",
		`{"parts":[1]}`:                       "parts[0]: must hold fields",
		`{"deep":{"parts":[{},{"nam":"x"}]}}`: "deep.parts[1].nam: unknown field; did you mean name?",
		strings.Repeat("[", 100):              "nested deeper",
	} {
		var d document
		if err := JSON([]byte(text), &d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestEveryErrorIsReported(t *testing.T) {
	var d document
	err := YAML(strings.NewReader("count: x\nparts:\n- nam: y\n"), &d)
	if want := "line 1: count: \"x\" is not a whole number\nline 3: parts[0].nam: unknown field; did you mean name?"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if e, ok := errors.AsType[*Error](err); !ok || e.Path != "count" || e.Line != 1 {
		t.Errorf("the first is %+v", e)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"count":1,"parts":[{"name":"x"}]}`)
	f.Add(`[[[[`)
	f.Fuzz(func(_ *testing.T, text string) {
		var d document
		_ = JSON([]byte(text), &d) // must not panic, whatever it is given
	})
}

func FuzzYAML(f *testing.F) {
	f.Add("a: &a {b: *a}")
	f.Add("parts: [{name: x}]")
	f.Fuzz(func(_ *testing.T, text string) {
		var d document
		_ = YAML(strings.NewReader(text), &d)
	})
}

func TestComments(t *testing.T) {
	type inner struct {
		Name string `yaml:"name" about:"what it is called"`
		Size int    `yaml:"size,omitempty" about:"how large it is"`
	}
	n, err := Commented(&struct {
		Parts []inner       `yaml:"parts" about:"what it consists of"`
		Empty []inner       `yaml:"empty"`
		Deep  inner         `yaml:"deep"`
		Wait  time.Duration `yaml:"wait" about:"how long it waits"`
	}{Parts: []inner{{Name: "a", Size: 1}, {Name: "b"}}, Wait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	want := `# what it consists of
parts:
    - # what it is called
      name: a
      # how large it is
      size: 1
    - name: b
empty: []
deep:
    # what it is called
    name: ""
# how long it waits
wait: 1s
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}
