package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var versionForm = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)

// specOf reads the spec of an object, fills in the defaults of the CRD, and rejects what the CRD
// rejects: SPEC_INVALID.
func specOf(o control.Object) (v1alpha1.SharedStorageClusterSpec, error) {
	var spec v1alpha1.SharedStorageClusterSpec
	dec := json.NewDecoder(bytes.NewReader(orEmpty(o.Spec)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		_ = json.Unmarshal(orEmpty(o.Spec), &spec) // fields that can be read are used, all others get their defaults
		fill(&spec)
		return spec, sharedstorage.SpecInvalid.Errorf("spec: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	fill(&spec)
	if err := errors.Join(check(o.Namespace), check(o.Name)); err != nil {
		return spec, sharedstorage.SpecInvalid.Errorf("metadata: %w", err)
	}
	err := errors.Join(wrong(&spec), sharedstorage.CheckBackup(port.Ref{Namespace: o.Namespace, Name: o.Name}, &spec))
	spec.SharedMemory, spec.HugePages = nil, nil // of pods: processes use what the machine has
	return spec, err
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

func fill(s *v1alpha1.SharedStorageClusterSpec) {
	for _, text := range []struct {
		field *string
		value string
	}{
		{&s.Engine.Type, "postgres"}, {&s.Class.Name, "small"}, {&s.Storage.OnDelete, "Retain"},
		{&s.Durability, "strict"}, {&s.Scheduling.Spread, "kubernetes.io/hostname"}, {&s.Scheduling.WhenUnsatisfiable, "DoNotSchedule"},
	} {
		if *text.field == "" {
			*text.field = text.value
		}
	}
	if s.Readers == nil {
		s.Readers = new(int32(2))
	}
	if s.Storage.Size == nil {
		s.Storage.Size = resource.NewQuantity(10<<30, resource.BinarySI)
	}
	if s.HA.Enabled == nil {
		s.HA.Enabled = new(true)
	}
	if p := s.Pooler; p != nil {
		p.Instances, p.Mode = cmp.Or(p.Instances, 1), cmp.Or(p.Mode, port.TransactionPooling)
		p.MaxClientConnections, p.DefaultPoolSize = cmp.Or(p.MaxClientConnections, 100), cmp.Or(p.DefaultPoolSize, 20)
	}
	if s.Ports != nil && s.Ports.Step == 0 {
		s.Ports.Step = 1
	}
}

func wrong(s *v1alpha1.SharedStorageClusterSpec) error {
	oneOf := func(field, value string, known ...string) error {
		if slices.Contains(known, value) {
			return nil
		}
		return sharedstorage.SpecInvalid.Errorf("%s: %q is none of %s", field, value, strings.Join(known, ", "))
	}
	switch {
	case s.Engine.Version != "" && !versionForm.MatchString(s.Engine.Version):
		return sharedstorage.SpecInvalid.Errorf("engine.version: %q is no version, such as 15 or 15.18", s.Engine.Version)
	case *s.Readers < 0 || *s.Readers > 15:
		return sharedstorage.SpecInvalid.Errorf("readers: %d is not within 0 and 15", *s.Readers)
	case s.Storage.Size.Value() < 1<<20 || s.Storage.Size.Value() > 1<<50:
		return sharedstorage.SpecInvalid.Errorf("storage.size: %s is not within 1Mi and 1Pi", s.Storage.Size)
	case len(s.Parameters) > 200:
		return sharedstorage.SpecInvalid.Errorf("parameters: %d are more than 200", len(s.Parameters))
	case s.Ports != nil && (s.Ports.Start < 1 || s.Ports.Start > 65535 || s.Ports.Step < 0):
		return sharedstorage.SpecInvalid.Errorf("ports: they begin within 1 and 65535, and do not go down")
	}
	return errors.Join(
		sharedstorage.WrongPods(s),
		invalid(declared.CheckDatabases(s)),
		invalid(declared.CheckReplication(s)),
		sharedstorage.CheckPooler(s.Pooler),
		oneOf("engine.type", s.Engine.Type, "postgres"),
		oneOf("storage.onDelete", s.Storage.OnDelete, "Retain", "Delete"),
		oneOf("durability", s.Durability, "strict", "available"),
		oneOf("scheduling.whenUnsatisfiable", s.Scheduling.WhenUnsatisfiable, "DoNotSchedule", "ScheduleAnyway"),
	)
}

// invalid returns SPEC_INVALID for what is wrong with a spec.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return sharedstorage.SpecInvalid.Errorf("%w", err)
}

// Admit rejects clusters that the CRD would reject, when they are stored: an invalid spec, a
// volume that shrinks, another engine, another major version, another cloneFrom. It accepts
// objects of other kinds.
func Admit(objects control.Objects) control.Objects { return control.Admit(objects, admit) }

func admit(_ context.Context, want control.Object, stored func() (*control.Object, error)) error {
	if want.Kind == sharedstorage.BackupKind && want.Spec != nil {
		return admitBackup(want, stored)
	}
	if want.Kind != sharedstorage.Kind || want.Spec == nil {
		return nil
	}
	old, err := stored()
	if err != nil || old != nil && (old.Deleting() || bytes.Equal(old.Spec, want.Spec)) {
		return err
	}
	next, err := specOf(want)
	if err != nil || old == nil {
		return err
	}
	before, err := specOf(*old)
	if err != nil {
		return nil //nolint:nilerr // any spec is better than one that cannot be
	}
	was, is := before.Engine.Version, next.Engine.Version
	switch {
	case next.Storage.Size.Cmp(*before.Storage.Size) < 0:
		return port.StorageShrink.Errorf("storage.size may only grow: from %s to %s", before.Storage.Size, next.Storage.Size)
	case was != "" && is != "" && major(was) != major(is):
		return port.VersionUnsupported.Errorf("engine.version: from %s to %s is another major version", was, is)
	case before.CloneFrom != next.CloneFrom:
		return sharedstorage.SpecInvalid.Errorf("cloneFrom counts at creation only")
	case !reflect.DeepEqual(before.RestoreFrom, next.RestoreFrom):
		return sharedstorage.SpecInvalid.Errorf("restoreFrom counts at creation only")
	}
	return nil
}

func major(version string) string {
	first, _, _ := strings.Cut(version, ".")
	return first
}
