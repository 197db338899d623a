"""What all formats in PostgreSQL have in common."""

PAGES_FOLLOW_THE_LOG = (
    "PostgreSQL syncs its log before the pages that depend on it, and makes a torn page again from the whole one that"
    " the log has (full_page_writes): no crash leaves what a cut through its files would"
)
"""Why no write is torn: with the tail of the log cut off, pages that were written since would be from the future."""
