package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/machine"
)

// reserved are the variables of exec steps; they are not configuration.
var reserved = []string{"PAWL_RUN", "PAWL_STEP", "PAWL_KEY", "PAWL_ATTEMPT", "PAWL_EPOCH", "PAWL_TOKEN"}

// unset are flags that neither environment nor file may give.
var unset = []string{"help", "config", "version"}

// variable is the environment variable of a flag.
func variable(flag string) string {
	return "PAWL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// configure fills in the flags of a command that were not given:
// flags > environment > file > default.
func configure(cmd *cobra.Command, env func(string) (string, bool)) error {
	path, _ := cmd.Flags().GetString("config")
	if path == "" {
		path, _ = env("PAWL_CONFIG")
	}
	settings, err := readConfig(path, flagNames(cmd.Root()))
	if err != nil {
		return err
	}
	var wrong []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || slices.Contains(unset, f.Name) {
			return
		}
		name := variable(f.Name)
		if value, ok := env(name); ok && !slices.Contains(reserved, name) {
			if err := setFlag(cmd.Flags(), f, strings.Split(value, ",")); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s=%q: %v", name, value, err))
			}
			return
		}
		if s, ok := settings[f.Name]; ok {
			if err := setFlag(cmd.Flags(), f, s.values); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s: %v", path, s.line, f.Name, err))
			}
		}
	})
	return configWrong(wrong)
}

// configWrong reports all errors of a configuration as one fault.
func configWrong(all []string) error {
	if len(all) == 0 {
		return nil
	}
	return ConfigWrong.Errorf("%s", strings.Join(all, "; "))
}

func setFlag(flags *pflag.FlagSet, f *pflag.Flag, values []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		f.Changed = true
		return list.Replace(values)
	}
	return flags.Set(f.Name, strings.Join(values, ","))
}

// flagNames returns the flags of all commands: one file serves them all.
func flagNames(root *cobra.Command) []string {
	var names []string
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		add := func(f *pflag.Flag) {
			if !slices.Contains(unset, f.Name) {
				names = append(names, f.Name)
			}
		}
		c.PersistentFlags().VisitAll(add)
		c.LocalFlags().VisitAll(add)
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(root)
	slices.Sort(names)
	return slices.Compact(names)
}

type setting struct {
	values []string
	line   int
}

// readConfig reads a configuration file: a mapping of flags to values or lists of values.
func readConfig(path string, known []string) (map[string]setting, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, ConfigWrong.Errorf("%w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, ConfigWrong.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	settings := map[string]setting{}
	if len(doc.Content) == 0 {
		return settings, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, ConfigWrong.Errorf("%s:%d:%d: the file is no mapping of flags to values", path, root.Line, root.Column)
	}
	var all []string
	wrong := func(n *yaml.Node, format string, args ...any) {
		all = append(all, fmt.Sprintf("%s:%d:%d: %s", path, n.Line, n.Column, fmt.Sprintf(format, args...)))
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		switch _, twice := settings[key.Value]; {
		case !slices.Contains(known, key.Value):
			wrong(key, "unknown key %q%s", key.Value, machine.DidYouMean(key.Value, known))
			continue
		case twice:
			wrong(key, "%q is there twice", key.Value)
			continue
		}
		s := setting{line: key.Line}
		items := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			items = value.Content
		}
		for _, item := range items {
			if item.Kind != yaml.ScalarNode {
				wrong(item, "%q takes a value or a list of values", key.Value)
				continue
			}
			s.values = append(s.values, item.Value)
		}
		settings[key.Value] = s
	}
	return settings, configWrong(all)
}
