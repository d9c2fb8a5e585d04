-- The service's own tables. `once schema postgres --apply` creates Once's tables.
CREATE TABLE platform_users (
    id UUID PRIMARY KEY,
    name VARCHAR(100) NOT NULL UNIQUE,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
CREATE TABLE platform_dwellers (id UUID PRIMARY KEY, name VARCHAR(100) NOT NULL);
CREATE TABLE platform_acts (
    id UUID PRIMARY KEY,
    user_id UUID NOT NULL REFERENCES platform_users(id),
    dweller_id UUID NOT NULL REFERENCES platform_dwellers(id),
    action TEXT NOT NULL
);
CREATE TABLE platform_heartbeats (
    id UUID PRIMARY KEY,
    user_id UUID NOT NULL REFERENCES platform_users(id),
    dweller_id UUID NOT NULL REFERENCES platform_dwellers(id)
);
CREATE TABLE platform_stories (
    id UUID PRIMARY KEY,
    user_id UUID NOT NULL REFERENCES platform_users(id),
    title TEXT NOT NULL
);
CREATE TABLE platform_proposals (
    id UUID PRIMARY KEY,
    user_id UUID NOT NULL REFERENCES platform_users(id),
    text TEXT NOT NULL,
    votes INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE platform_feedback (
    id UUID PRIMARY KEY,
    user_id UUID NOT NULL REFERENCES platform_users(id),
    subject_type VARCHAR(20) NOT NULL,
    subject_id UUID NOT NULL,
    text TEXT NOT NULL
);
INSERT INTO platform_dwellers VALUES ('00000000-0000-4000-8000-000000000001', 'Jiji');
