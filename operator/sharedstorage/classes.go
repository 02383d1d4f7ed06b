package sharedstorage

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// ClassesName is the ConfigMap that lists the classes of a namespace: one key per class, with cpu,
// memory and parameters as YAML. A namespace without it has the DefaultClasses.
const ClassesName = "pawl-classes"

// DefaultClasses returns the classes of a namespace that lists none: small, medium and large.
func DefaultClasses() map[string]port.Class {
	made := map[string]port.Class{}
	for _, c := range []struct {
		name                         string
		cpu, memory                  int64
		buffers, cached, connections string
	}{
		{"small", 250, 512 << 20, "128MB", "256MB", "100"},
		{"medium", 1000, 2 << 30, "512MB", "1GB", "200"},
		{"large", 4000, 8 << 30, "2GB", "6GB", "400"},
	} {
		made[c.name] = port.Class{Name: c.name, CPU: c.cpu, Memory: c.memory, Parameters: map[string]string{
			"shared_buffers": c.buffers, "effective_cache_size": c.cached, "max_connections": c.connections,
		}}
	}
	return made
}

// ParseClasses reads the data of a ConfigMap that lists classes. Its error is SPEC_INVALID and
// names the class that cannot be read.
func ParseClasses(data map[string]string) (map[string]port.Class, error) {
	found := map[string]port.Class{}
	for name, text := range data {
		var one struct {
			CPU        *resource.Quantity `json:"cpu"`
			Memory     *resource.Quantity `json:"memory"`
			Parameters map[string]string  `json:"parameters"`
		}
		if err := strictly(text, &one); err != nil {
			return nil, SpecInvalid.Errorf("class %s: %w", name, err)
		}
		made := port.Class{Name: name, Parameters: one.Parameters}
		if one.CPU != nil {
			made.CPU = one.CPU.MilliValue()
		}
		if one.Memory != nil {
			made.Memory = one.Memory.Value()
		}
		if made.CPU < 0 || made.Memory < 0 {
			return nil, SpecInvalid.Errorf("class %s: cpu and memory are not negative", name)
		}
		found[name] = made
	}
	return found, nil
}

// strictly decodes YAML by the JSON names of a type and rejects unknown names.
func strictly(text string, into any) error {
	var value map[string]any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("it is no YAML: %w", err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
