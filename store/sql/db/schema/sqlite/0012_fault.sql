-- The fault by which a run is paused, so that lists choose and count by it without reading every run.

ALTER TABLE run ADD COLUMN fault TEXT; -- code, in phase 4; NULL: none
CREATE INDEX run_fault ON run (fault) WHERE fault IS NOT NULL;
