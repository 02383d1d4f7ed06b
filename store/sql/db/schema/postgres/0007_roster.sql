-- Lists count workers and name VMs without reading nodes, and find addresses without reading journals.

CREATE INDEX container_cluster_vm_map_roster ON container_cluster_vm_map (cluster_id, removed, role, ordinal, vm_id);
DROP INDEX container_cluster_vm_map_cluster;
CREATE INDEX container_cluster_resource_address ON container_cluster_resource (cluster_id) WHERE kind = 'address';
