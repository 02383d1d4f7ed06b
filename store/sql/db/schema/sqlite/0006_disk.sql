-- The root disk of a cluster's nodes in GB, 0 where the template decides; and a
-- column that nobody has read.

ALTER TABLE container_cluster ADD COLUMN disk_gb INTEGER NOT NULL DEFAULT 0;
ALTER TABLE container_cluster_details DROP COLUMN join_token_names;
