package classic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxSize is the limit of the input; a ConfigMap holds 1 MiB.
const maxSize = 16 << 20

// record is one run in the format of the PolarDB Stack engine.
type record struct {
	FlowName     string          `json:"flowName"`
	FlowStatus   string          `json:"flowStatus"`
	StartTime    json.RawMessage `json:"startTime"`
	CompleteTime json.RawMessage `json:"completeTime"`
	ErrorMessage string          `json:"errorMessage"`
	InitContext  json.RawMessage `json:"initContext"`
	RunningSteps []stepRecord    `json:"runningSteps"`
}

type stepRecord struct {
	StepName             string          `json:"StepName"`
	StepStatus           string          `json:"stepStatus"`
	StepStartTime        json.RawMessage `json:"stepStartTime"`
	LastStepCompleteTime json.RawMessage `json:"lastStepCompleteTime"`
	ContextOutput        json.RawMessage `json:"contextOutput"`
	RetryTimes           json.RawMessage `json:"retryTimes"`
}

// The values of that engine.
const (
	completed          = "completed"
	failedAndCompleted = "failedAndCompleted"
)

// entry is one key of the ConfigMap.
type entry struct {
	key    string
	number int    // number in the key; -1 if there is none
	flow   string // flow in the key
	value  []byte
}

var keyForm = regexp.MustCompile(`^([0-9]{1,9})-(.+)$`)

// entries decodes a ConfigMap, as a manifest or as its plain data, in YAML or JSON.
func entries(data []byte) ([]entry, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("the file is larger than %d MiB", maxSize>>20)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("neither YAML nor JSON: %w", err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the file holds more than one document: import each ConfigMap by itself")
	}
	if err := plain(&document); err != nil {
		return nil, err
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: a ConfigMap is a mapping", root.Line)
	}
	if kind := find(root, "kind"); kind != nil {
		if kind.Value != "ConfigMap" {
			return nil, fmt.Errorf("line %d: the manifest is a %s, not a ConfigMap", kind.Line, kind.Value)
		}
		if root = find(root, "data"); root == nil {
			return nil, nil
		}
		if root.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: data is no mapping", root.Line)
		}
	}
	return read(root)
}

func read(root *yaml.Node) ([]entry, error) {
	var all []entry
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			return nil, fmt.Errorf("line %d: key %q is repeated", key.Line, key.Value)
		}
		seen[key.Value] = true
		e := entry{key: key.Value, number: -1, value: []byte(value.Value)}
		if value.Kind != yaml.ScalarNode {
			var plain any
			if err := value.Decode(&plain); err == nil {
				e.value, _ = json.Marshal(plain) // a value without a JSON form is damaged: it stays empty
			}
		}
		if m := keyForm.FindStringSubmatch(key.Value); m != nil {
			e.number, _ = strconv.Atoi(m[1])
			e.flow = m[2]
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.key, b.key)) })
	return all, nil
}

func find(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func plain(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		return fmt.Errorf("line %d: YAML aliases are refused", n.Line)
	}
	for _, child := range n.Content {
		if err := plain(child); err != nil {
			return err
		}
	}
	return nil
}

// contextOf decodes an initContext or contextOutput: an object, or an object in a string. It returns
// nothing for an empty value.
func contextOf(raw json.RawMessage) (json.RawMessage, error) {
	var inner string
	if json.Unmarshal(raw, &inner) == nil {
		raw = json.RawMessage(strings.TrimSpace(inner))
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	if !object(compact.Bytes()) {
		return nil, fmt.Errorf("it is no object")
	}
	return compact.Bytes(), nil
}

var timeForms = []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02T15:04:05.999-0700"}

// timeOf decodes a time in any of the known formats; zero for an empty or invalid value.
func timeOf(raw json.RawMessage) time.Time {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return time.Time{}
	}
	s, _, _ = strings.Cut(s, " m=") // time.Time.String ends with a monotonic reading
	for _, form := range timeForms {
		if at, err := time.Parse(form, s); err == nil && at.Year() > 1 && at.Year() < 10_000 {
			return at.UTC()
		}
	}
	return time.Time{}
}

// attempts returns the number of attempts of a step.
func (s stepRecord) attempts() int {
	text := strings.Trim(string(s.RetryTimes), `"`)
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < 1_000_000 {
		return n + 1
	}
	return 1
}
