package wfengine

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// FlowMeta is a flow as its file defines it.
type FlowMeta struct {
	FlowName             string      `yaml:"flowName,omitempty"`
	RecoverFromFirstStep bool        `yaml:"recoverFromFirstStep,omitempty"`
	Steps                []*StepMeta `yaml:"steps,omitempty"`

	file   string // its text may have more than these fields
	source []byte
}

// StepGroupMeta is a step group as its file defines it.
type StepGroupMeta struct {
	GroupName string      `yaml:"groupName,omitempty"`
	Steps     []*StepMeta `yaml:"steps,omitempty"`

	file   string
	source []byte
}

// StepMeta is a step, with its type or group.
type StepMeta struct {
	ClassName string `yaml:"className,omitempty"`
	StepName  string `yaml:"stepName,omitempty"`
}

// WfMetaLoader reads the flows and the step groups of a folder, by name.
type WfMetaLoader interface {
	GetAllFlowMeta(workFlowMetaDir string) (map[string]*FlowMeta, map[string]*StepGroupMeta, error)
}

// CreateMetaLoaderFunc returns the loader of a type of resource.
type CreateMetaLoaderFunc func(resourceType string) (WfMetaLoader, error)

// DefaultWfMetaLoader reads <folder>/<resource type>/*.yaml. A file may use all keys of Pawl's
// flow files.
type DefaultWfMetaLoader struct{ resourceType string }

// CreateDefaultWfMetaLoader returns the default loader.
func CreateDefaultWfMetaLoader(resourceType string) (WfMetaLoader, error) {
	return &DefaultWfMetaLoader{resourceType}, nil
}

const groupSuffix = "_step_group.yaml"

// GetAllFlowMeta reads the files. CreateWfManager reports mistakes in them with the line.
func (l *DefaultWfMetaLoader) GetAllFlowMeta(workFlowMetaDir string) (map[string]*FlowMeta, map[string]*StepGroupMeta, error) {
	flows, groups := map[string]*FlowMeta{}, map[string]*StepGroupMeta{}
	folder := filepath.Join(workFlowMetaDir, l.resourceType)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("the flows of %s: %w", l.resourceType, err)
	}
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".yaml") {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		if strings.HasSuffix(entry.Name(), groupSuffix) {
			group := &StepGroupMeta{file: path, source: data}
			if err := decodeMeta(path, data, group); err != nil {
				return nil, nil, err
			}
			if groups[group.GroupName] != nil {
				return nil, nil, fmt.Errorf("%s: the step group %q is defined twice", path, group.GroupName)
			}
			groups[group.GroupName] = group
			continue
		}
		flow := &FlowMeta{file: path, source: data}
		if err := decodeMeta(path, data, flow); err != nil {
			return nil, nil, err
		}
		if flows[flow.FlowName] != nil {
			return nil, nil, fmt.Errorf("%s: the flow %q is defined twice", path, flow.FlowName)
		}
		flows[flow.FlowName] = flow
	}
	return flows, groups, nil
}

func decodeMeta(path string, data []byte, into any) error {
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// flowsOf translates the result of a loader into Pawl's flows, through its flow file format, so
// that a cycle, a repeated name or an unknown key is an error with a line.
func flowsOf(metas map[string]*FlowMeta, groups map[string]*StepGroupMeta) ([]workflow.Flow, error) {
	var files []flowfile.File
	add := func(name, file string, source []byte, meta any) error {
		if source == nil {
			var err error
			if source, err = yaml.Marshal(meta); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			file = name
		}
		files = append(files, flowfile.File{Name: file, Data: source})
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if err := add(name+groupSuffix, groups[name].file, groups[name].source, groups[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metas)) {
		if err := add(name+".yaml", metas[name].file, metas[name].source, metas[name]); err != nil {
			return nil, err
		}
	}
	set, err := flowfile.Parse(files, flowfile.Options{AnyAction: true})
	if err != nil {
		return nil, err
	}
	return set.Flows(), nil
}

// flatten returns flows whose groups are replaced by their steps. It terminates because flowsOf
// has rejected cycles.
func flatten(metas map[string]*FlowMeta, groups map[string]*StepGroupMeta) map[string]*FlowMeta {
	var inside func(steps []*StepMeta) []*StepMeta
	inside = func(steps []*StepMeta) (flat []*StepMeta) {
		for _, s := range steps {
			if s == nil {
				continue
			}
			if group := groups[s.ClassName]; group != nil {
				flat = append(flat, inside(group.Steps)...)
				continue
			}
			copied := *s
			flat = append(flat, &copied)
		}
		return flat
	}
	all := make(map[string]*FlowMeta, len(metas))
	for name, meta := range metas {
		copied := *meta
		copied.Steps = inside(meta.Steps)
		all[name] = &copied
	}
	return all
}

// leaf is a step that is not a group.
type leaf struct {
	instance string // before/DisableHA
	name     string // DisableHA, if it is the only one of its name
	class    string
}

// leavesOf returns the steps of a flow in order. A step within a loop has no name before the loop
// is reached.
func leavesOf(flow *workflow.Flow) []leaf {
	var leaves []leaf
	var visit func(steps []workflow.Step, path string)
	visit = func(steps []workflow.Step, path string) {
		for i := range steps {
			s := &steps[i]
			instance := path + s.Name
			switch {
			case s.ForEach != nil:
			case s.Steps == nil:
				leaves = append(leaves, leaf{instance, s.Name, s.Uses})
			default:
				for _, part := range [][]workflow.Step{oneStep(s.Open), s.Steps, oneStep(s.Close)} {
					visit(part, instance+"/")
				}
			}
		}
	}
	visit(flow.Steps, "")
	count := map[string]int{}
	for _, l := range leaves {
		count[l.name]++
	}
	for i, l := range leaves {
		if count[l.name] > 1 {
			leaves[i].name = l.instance
		}
	}
	return leaves
}

func oneStep(s *workflow.Step) []workflow.Step {
	if s == nil {
		return nil
	}
	return []workflow.Step{*s}
}

// tune applies the policy of a manager where a flow file sets none.
func tune(flow workflow.Flow, p policy) workflow.Flow {
	var visit func(steps []workflow.Step) []workflow.Step
	one := func(s *workflow.Step) *workflow.Step {
		if s == nil {
			return nil
		}
		return &visit([]workflow.Step{*s})[0]
	}
	visit = func(steps []workflow.Step) []workflow.Step {
		tuned := slices.Clone(steps)
		for i := range tuned {
			s := &tuned[i]
			if s.Steps != nil {
				s.Steps, s.Open, s.Close = visit(s.Steps), one(s.Open), one(s.Close)
				continue
			}
			s.Timeout = cmp.Or(s.Timeout, p.timeout)
			s.Retry.Attempts = cmp.Or(s.Retry.Attempts, p.attempts)
			s.Retry.First = cmp.Or(s.Retry.First, p.first)
			s.Retry.Longest = cmp.Or(s.Retry.Longest, p.longest)
		}
		return tuned
	}
	flow.Steps, flow.Finally = visit(flow.Steps), visit(flow.Finally)
	return flow
}
