package api

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

// picture is n random bytes in base64, as pictures are in bodies.
func picture(n int) string {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // it does not fail
	return base64.StdEncoding.EncodeToString(data)
}

func TestAttachmentsCountForLittle(t *testing.T) {
	prose := strings.Repeat("It was the best of times, it was the worst of times. ", 2000)
	word := strings.Repeat("Antidisestablishmentarianism2", 1000)
	data := picture(200_000)
	attach := func(data string) string { return `{"image_url":{"url":"data:image/png;base64,` + data + `"}},` }
	for name, tt := range map[string]struct {
		body  string
		total int // 0: of body
		want  int // give or take 100 for what surrounds the data
	}{
		"text":                   {prose, 0, len(prose)},
		"a long word":            {word, 0, attached}, // what no language has is taken for data
		"hexadecimal":            {hex.EncodeToString([]byte(prose)), 0, 2 * len(prose)},
		"Chinese":                {strings.Repeat("春眠不觉晓处处闻啼鸟", 5000), 0, 150_000},
		"a picture":              {attach(data), 0, attached},
		"a small picture":        {attach(data[:3000]), 0, 3000},
		"text and pictures":      {prose + attach(data) + prose + attach(data) + attach(data) + prose, 0, 3*len(prose) + 3*attached},
		"escaped slashes":        {attach(strings.ReplaceAll(data, "/", `\/`)), 0, attached},
		"an alphabet for URLs":   {attach(strings.NewReplacer("/", "_", "+", "-").Replace(data)), 0, attached},
		"with the rest to come":  {prose + `"` + data[:100_000], 3_000_000, len(prose) + attached},
		"with more behind it":    {attach(data) + prose[:100], 3_000_000, 3_000_000 - len(data) + attached},
		"nothing":                {"", 0, 0},
		"not even a place to be": {data[:probeEvery+probeSize-1], 0, probeEvery + probeSize - 1},
	} {
		total := tt.total
		if total == 0 {
			total = len(tt.body)
		}
		if got := promptSize([]byte(tt.body), total); got < tt.want-100 || got > tt.want+100 {
			t.Errorf("%s: %d of %d bytes, want %d", name, got, total, tt.want)
		}
	}
}

func FuzzPromptSize(f *testing.F) {
	f.Add([]byte("prose "), []byte(`"`), uint16(9000), uint32(7))
	f.Add([]byte(picture(90)), []byte(`","`), uint16(200), uint32(1<<30))
	f.Add([]byte(`"`), []byte(picture(90)), uint16(200), uint32(0))
	f.Fuzz(func(t *testing.T, part, end []byte, times uint16, more uint32) {
		body := append(bytes.Repeat(part, min(int(times), 1<<18/(1+len(part)))), end...)
		body = append(body, body...)
		total := len(body) + int(more)
		if size := promptSize(body, total); size < min(len(body), attached) || size > total {
			t.Errorf("%d of %d bytes", size, total)
		}
	})
}
