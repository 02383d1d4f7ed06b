package fdb

import (
	"path"
	"strings"
)

// LockPrefix is the prefix of the shared keys unless the spec gives another. The published operator
// uses the same (api/v1beta2/foundationdbcluster_types.go at 2.33.0).
const LockPrefix = "\xff\x02/org.foundationdb.kubernetes-operator"

// Action is what instances do together, as the shared keys name it.
type Action string

// The actions. Nothing becomes ready for Removal: a group that is pending for removal is excluded.
const (
	Removal   Action = "Removal"
	Exclusion Action = "Exclusion"
	Inclusion Action = "Inclusion"
	Restart   Action = "Restart"
)

// LockKeys are the keys that all operators of a database share. Keys makes them.
type LockKeys struct{ prefix string }

// Keys returns the shared keys below a prefix; empty means LockPrefix.
func Keys(prefix string) LockKeys {
	if prefix == "" {
		prefix = LockPrefix
	}
	return LockKeys{prefix: prefix}
}

// Global is the key of the lock.
func (k LockKeys) Global() string { return k.prefix + "/global" }

// Denied is the key of the entry of the deny list that names an owner. Its value is the owner.
func (k LockKeys) Denied(owner string) string { return k.prefix + "/denyList/" + owner }

// DenyList is the range of the deny list.
func (k LockKeys) DenyList() Range { return PrefixRange(k.Denied("")) }

// Upgrade is the key by which a group waits for the restart with a version. Its value is the group.
func (k LockKeys) Upgrade(version, group string) string {
	return k.prefix + "/upgrades/" + version + "/" + group
}

// Upgrades is the range of the groups that wait for a version; an empty version means any.
func (k LockKeys) Upgrades(version string) Range {
	if version == "" {
		return PrefixRange(k.prefix + "/upgrades/")
	}
	return PrefixRange(k.Upgrade(version, ""))
}

// Maintenance is the key of a group under maintenance; EncodeMaintenance makes its value.
func (k LockKeys) Maintenance(group string) string { return k.prefix + "/maintenance/" + group }

// MaintenanceList is the range of the groups under maintenance.
func (k LockKeys) MaintenanceList() Range { return PrefixRange(k.Maintenance("")) }

// Pending is the key by which a group of an instance waits for an action; EncodeTime makes its value.
// The published operator leaves out an empty instance (path.Join in fdbclient/fdb_client.go at 2.33.0).
func (k LockKeys) Pending(a Action, instance, group string) string {
	return path.Join(k.prefix, "pendingFor"+string(a), instance, group)
}

// Ready is the key by which a group of an instance may take part in an action.
func (k LockKeys) Ready(a Action, instance, group string) string {
	return path.Join(k.prefix, "readyFor"+string(a), instance, group)
}

// ProcessAddresses is the key of the addresses of a group; EncodeAddresses makes its value.
func (k LockKeys) ProcessAddresses(instance, group string) string {
	return path.Join(k.prefix, "processAddresses", instance, group)
}

// PendingList is the range of the groups that wait for an action; an empty instance means all
// instances.
func (k LockKeys) PendingList(a Action, instance string) Range {
	return PrefixRange(k.Pending(a, instance, "") + "/")
}

// ReadyList is the range of the groups that are ready for an action.
func (k LockKeys) ReadyList(a Action, instance string) Range {
	return PrefixRange(k.Ready(a, instance, "") + "/")
}

// AddressList is the range of the addresses of groups.
func (k LockKeys) AddressList(instance string) Range {
	return PrefixRange(k.ProcessAddresses(instance, "") + "/")
}

// GroupOf is the group that a key of Upgrades, MaintenanceList, PendingList, ReadyList or AddressList
// names.
func GroupOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
