-- The name of a cluster is unique among the living clusters of its account.
CREATE UNIQUE INDEX container_cluster_name ON container_cluster (account_id, name) WHERE state <> 'Destroyed' AND name <> '';
