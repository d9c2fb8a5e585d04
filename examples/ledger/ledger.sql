-- The ledger's own tables, for PostgreSQL and MySQL. `once schema … --apply` creates Once's tables.
CREATE TABLE accounts (name varchar(100) PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE transfers (
  id varchar(36) PRIMARY KEY,
  reference varchar(200) NOT NULL,
  source varchar(100) NOT NULL,
  target varchar(100) NOT NULL,
  amount bigint NOT NULL
);
INSERT INTO accounts VALUES ('alice', 1000), ('bob', 1000);
