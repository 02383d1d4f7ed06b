// Package library loads what a process executes: flows, faults, healers and machines from files, and the ready-made actions.
//
//	--flows, --machines ─▶ flowfile.Load ─▶ machinefile.Load ─▶ Library ─▶ Engine.Load
package library

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// FileWrong is the fault of an invalid definition file.
var FileWrong = fault.Declare(fault.Kind{
	Code: "FILE_WRONG", Class: fault.Invalid,
	Title:  "the file cannot be read or does not fit",
	Remedy: "Correct what the message names and run the command again.",
})

// Library holds the definitions of files.
type Library struct {
	Flows    []workflow.Flow // those of single actions of machines included
	Machines []machine.Standalone
	Faults   []fault.Kind
	Healers  map[fault.Code]workflow.Healer
	Warnings flowfile.Problems
}

// Load reads files and folders. Both lists may name folders that hold flows and
// machines side by side. An error about the content of files is flowfile.Problems.
func Load(flows, machines []string, options flowfile.Options) (Library, error) {
	var problems flowfile.Problems
	flowPaths, machinePaths, err := sorted(flows, machines)
	if err != nil {
		return Library{}, err
	}
	l := Library{}
	if len(flowPaths) > 0 {
		set, err := flowfile.Load(flowPaths, options)
		switch {
		case errors.As(err, &problems):
		case err != nil:
			return Library{}, err
		default:
			l.Flows, l.Faults, l.Healers, l.Warnings = set.Flows(), set.Faults(), set.Healers(), set.Warnings()
		}
	}
	if len(machinePaths) > 0 && problems == nil {
		known := slices.Clone(options.Flows)
		for _, f := range l.Flows {
			known = append(known, f.Name)
		}
		l.Machines, err = machinefile.Load(machinePaths, machinefile.Options{Actions: options.Actions, Flows: known, AnyAction: options.AnyAction,
			Warn: func(p flowfile.Problem) { l.Warnings = append(l.Warnings, p) }})
		var found flowfile.Problems
		switch {
		case errors.As(err, &found):
			problems = append(problems, found...)
		case err != nil:
			return Library{}, err
		}
		for _, m := range l.Machines {
			l.Flows = append(l.Flows, m.Flows...)
		}
	}
	if len(problems) > 0 {
		return Library{}, problems
	}
	return l, nil
}

// Files returns the files that Load would read, with size and time, so that a
// caller notices changes.
func Files(paths ...string) (map[string]string, error) {
	files := map[string]string{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, FileWrong.Errorf("%w", err)
		}
		if !info.IsDir() {
			files[path] = stamp(info)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !isYAML(e.Name()) {
				continue
			}
			if info, err := e.Info(); err == nil && !info.IsDir() { // it may have gone since
				files[filepath.Join(path, e.Name())] = stamp(info)
			}
		}
	}
	return files, nil
}

func stamp(info os.FileInfo) string {
	return info.ModTime().UTC().Format("20060102150405.000000000") + "/" + info.Mode().String()
}

func isYAML(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// sorted separates files of machines from those of flows; folders may hold both.
func sorted(flows, machines []string) (flowPaths, machinePaths []string, err error) {
	for _, path := range slices.Concat(flows, machines) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, FileWrong.Errorf("%w", err)
		}
		isMachine := false
		if !info.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, nil, FileWrong.Errorf("%w", err)
			}
			isMachine = machinefile.IsMachine(data)
		}
		if !isMachine && !slices.Contains(flowPaths, path) {
			flowPaths = append(flowPaths, path)
		}
		if (isMachine || info.IsDir()) && !slices.Contains(machinePaths, path) {
			machinePaths = append(machinePaths, path)
		}
	}
	return flowPaths, machinePaths, nil
}
