package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep a JSON document may be nested.
const maxDepth = 32

// JSON reads one JSON value over *v, a struct whose fields have yaml tags. The
// error joins one *Error for each field, without lines.
func JSON(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := jsonNode(d, 0)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body is not whole: it must be a JSON object")
	case err != nil:
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body is not JSON: something follows the object")
	}
	return decode(n, v)
}

// jsonNode reads the next value as the node that the same YAML would be.
func jsonNode(d *json.Decoder, depth int) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for d.More() {
			item, err := jsonNode(d, depth+1) // an object's names are values too
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		_, err = d.Token()
		return n, err
	case string:
		return scalar("!!str", t), nil
	case json.Number:
		if _, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return scalar("!!int", t.String()), nil
		}
		return scalar("!!float", t.String()), nil
	case bool:
		return scalar("!!bool", strconv.FormatBool(t)), nil
	default:
		return scalar("!!null", "null"), nil
	}
}

func scalar(tag, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}
