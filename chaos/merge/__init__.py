"""The results folders of the shards of one campaign, made one folder: read, compared, put together, written."""
