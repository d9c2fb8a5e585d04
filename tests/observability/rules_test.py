"""Every alert fires when it should and not when it should not, as Prometheus itself evaluates it in virtual time."""
import re
import unittest

import packaged

WHERE = 'job="once",instance="gateway:8081"'


def series(name, values, labels=""):
    return {"series": f"{name}{{{','.join(part for part in (WHERE, labels) if part)}}}", "values": values}


def grows(name, by, labels="", minutes=100):
    """A counter, one sample a minute."""
    return series(name, f"0+{by}x{minutes}", labels)


def stays(name, value, labels="", minutes=100):
    return series(name, f"{value}x{minutes}", labels)


def outcomes(succeeded, **others):
    route = 'route="/payments"'
    return [grows("once_outcomes_total", by, f'{route},outcome="{outcome}"')
            for outcome, by in {"succeeded": succeeded, **others}.items()]


def takeovers(by):
    return grows("once_takeovers_total", by, 'route="/payments"')


def requests(**results):
    return [grows("once_requests_total", by, f'route="/payments",result="{result}"') for result, by in results.items()]


def claims(**results):
    return [grows("once_claims_requests_total", by, f'verb="claim",result="{result}"') for result, by in results.items()]


def failed_claims(by):
    return grows("once_claims_requests_total", by, 'verb="fail",result="done"')


def servers(*up):
    return [stays("once_upstream_up", value, f'upstream="default",server="http://10.0.0.{i}"') for i, value in enumerate(up)]


def near(use, limit, labels="", limit_labels=None):
    """Five of six and one in two: the gauge, and what it may be."""
    limit_labels = labels if limit_labels is None else limit_labels
    return ([stays(use, 5, labels), stays(limit, 6, limit_labels)], [stays(use, 3, labels), stays(limit, 6, limit_labels)])


# Of each alert: series that make it fire within 99 minutes, and series that do not.
CASES = {
    "OnceDown": ([stays("up", 0)], [stays("up", 1)]),
    "OnceJournalFailed": ([stays("once_journal_failed", 1)], [stays("once_journal_failed", 0)]),
    "OnceStoreDown": ([stays("once_store_connections", 0), grows("once_store_connect_failures_total", 5)],
                      # No connection, but nobody tried; and one that comes back.
                      [stays("once_store_connections", 0), stays("once_store_connect_failures_total", 7)]),
    "OnceStoreErrors": ([grows("once_store_errors_total", 3)], [series("once_store_errors_total", "0x50 4x50")]),
    "OnceStoreFull": ([grows("once_store_full_total", 3)], [stays("once_store_full_total", 3), stays("once_journal_full", 0)]),
    "OnceOutOfDescriptors": ([grows("once_out_of_descriptors_total", 1, 'for="client"')],
                             [stays("once_out_of_descriptors_total", 3, 'for="client"')]),
    "OnceUpstreamAllDown": ([*servers(0, 0), grows("once_backend_connect_failures_total", 1)],
                            [*servers(0, 1), grows("once_backend_connect_failures_total", 1)]),
    "OnceUpstreamDown": (servers(0, 1), servers(0, 0)),
    "OnceBypassed": (requests(bypassed=1, executed=9), requests(bypassed=0, executed=9)),
    "OnceOutcomesUnknown": (outcomes(10, unrecorded=1), outcomes(10, unknown=0, unrecorded=0, failed=2, released=1)),
    "OnceKeysHeldUnknown": ([stays("once_keys", 3, 'state="lapsed"'), stays("once_keys", 0, 'state="unknown"')],
                            [stays("once_keys", 0, 'state="unknown"'), stays("once_keys", 0, 'state="lapsed"'), stays("once_keys", 3, 'state="succeeded"')]),
    "OnceOutcomesUnsettled": ([stays("once_unsettled", 2)], [series("once_unsettled", "0x50 2x2 0x48")]),
    "OnceClaimsLost": ([grows("once_claims_lost_total", 1)], [stays("once_claims_lost_total", 9)]),
    "OnceLeasesNotRenewed": ([grows("once_lease_renewals_failed_total", 1)],
                             [series("once_lease_renewals_failed_total", "0x50 1x50")]),
    "OnceRequestStuck": ([stays("once_in_flight_oldest_seconds", 601)], [stays("once_in_flight_oldest_seconds", 599)]),
    "OnceTakeoversHigh": ([*outcomes(90), takeovers(6)], [*outcomes(90), takeovers(4)]),
    "OnceFailuresHigh": (outcomes(89, failed=11), outcomes(91, failed=9)),
    "OnceHitRateLow": (requests(executed=71, replayed=29), requests(executed=69, replayed=31)),
    "OnceClaimsTakeoversHigh": ([*claims(acquired=90), grows("once_claims_takeovers_total", 6)],
                                [*claims(acquired=90), grows("once_claims_takeovers_total", 4)]),
    "OnceClaimsFailuresHigh": ([*claims(acquired=90), failed_claims(10)], [*claims(acquired=90), failed_claims(8)]),
    "OnceClaimsHitRateLow": (claims(acquired=71, succeeded=29), claims(acquired=69, succeeded=31)),
    "OnceOverloaded": ([grows("once_overloaded_total", 1, 'limit="in_flight"')],
                       [series("once_overloaded_total", "0x50 9x50", 'limit="in_flight"')]),
    "OnceCallerLimit": ([grows("once_caller_limit_total", 1, 'limit="address_stored_bytes"')],
                        [grows("once_caller_limit_total", 1, 'limit="new_keys"'), stays("once_caller_limit_total", 4, 'limit="address_new_keys"')]),
    "OnceEvictions": ([grows("once_store_evictions_total", 1)], [stays("once_store_evictions_total", 5)]),
    "OnceNearLimit:connections": near("once_connections_open", "once_connections_limit"),
    "OnceNearLimit:in_flight": near("once_in_flight", "once_in_flight_limit"),
    "OnceNearLimit:body_bytes": near("once_body_bytes", "once_body_bytes_limit"),
    "OnceNearLimit:spool_bytes": near("once_spool_bytes", "once_spool_bytes_limit"),
    "OnceNearLimit:store_bytes": tuple([*of, stays("once_journal_disk_bytes", 1)] for of in near("once_store_bytes", "once_store_bytes_limit")),
    "OnceNearLimit:journal_disk": near("once_journal_disk_bytes", "once_journal_disk_bytes_limit"),
    "OnceNearLimit:store_queue": near("once_store_queue_depth", "once_store_queue_limit"),
    "OnceNearLimit:upstream_connections": near("once_upstream_connections", "once_upstream_connections_limit",
                                               'upstream="default",server="http://10.0.0.1"', 'upstream="default"'),
    "OnceNearLimit:upstream_queue": near("once_upstream_queued", "once_upstream_queue_limit", 'upstream="default"'),
    "OnceNearLimit:claims_connections": near("once_claims_connections_open", "once_claims_connections_limit"),
    "OnceNearLimit:claims_waiting": near("once_claims_waiting", "once_claims_waiting_limit"),
    "OnceNearLimit:descriptors": near("process_open_fds", "process_max_fds"),
    # promtool's clock begins at 0.
    "OnceCertificateExpires": ([stays("once_tls_certificate_expires_timestamp_seconds", 14 * 86400, 'file="a.pem"')],
                               [stays("once_tls_certificate_expires_timestamp_seconds", 15 * 86400, 'file="a.pem"')]),
}
# Rates say nothing of too little: the same shares as above, of next to no traffic.
QUIET = {
    "OnceTakeoversHigh": [*outcomes(1), takeovers(1)],
    "OnceFailuresHigh": outcomes(0, failed=1),
    "OnceHitRateLow": requests(executed=1, replayed=0),
    "OnceClaimsTakeoversHigh": [*claims(acquired=1), grows("once_claims_takeovers_total", 1)],
    "OnceClaimsFailuresHigh": [*claims(acquired=1), failed_claims(1)],
    "OnceClaimsHitRateLow": claims(acquired=1, succeeded=0),
}
# A route that nobody ever repeats a request on has no low rate, it has none.
NEVER_REPEATED = {"OnceHitRateLow": requests(executed=100, replayed=0),
                  "OnceClaimsHitRateLow": claims(acquired=100, succeeded=0)}
# A second way to the same alert.
ALSO_FIRES = {"OnceStoreFull": [stays("once_journal_full", 1)], "OnceOutcomesUnknown": outcomes(10, unknown=1),
              "OnceUpstreamAllDown": [*servers(0, 0), *requests(rejected=1)]}
# Alike, and nobody's work.
HARMLESS = {
    # Found out by the last request, long ago; nobody has come since.
    "OnceUpstreamAllDown": [*servers(0, 0), series("once_backend_connect_failures_total", "3x99"), *requests(passed=0)],
    # The memory store, at its bound.
    "OnceNearLimit:store_bytes": near("once_store_bytes", "once_store_bytes_limit")[0],
    # A restart of Prometheus, or of the gateway, that takes less than its time.
    "OnceDown": [series("up", "1x50 0x0 1x49")],
}
# After a restart counters begin at 0: that is no growth, and shares are taken of what came before and after.
ONCE_MORE = "0+{0}x49 0+{0}x49"


def restarted(all_series):
    """The same, counted anew in minute 50."""
    found = []
    for each in all_series:
        steady = re.fullmatch(r"0\+(\d+)x\d+", each["values"])
        found.append({**each, "values": ONCE_MORE.format(steady[1]) if steady else each["values"]})
    return found


END = (99,)
# A single event, in minute 51, must not be one of minutes.
AROUND_AN_EVENT = (*range(51, 68), 99)
# Shares, which must be the same across a restart; and counters of events.
RATES = ("OnceTakeoversHigh", "OnceFailuresHigh", "OnceClaimsTakeoversHigh", "OnceClaimsFailuresHigh")
EVENTS = (("once_store_errors_total", ""), ("once_store_full_total", ""), ("once_out_of_descriptors_total", 'for="client"'), ("once_claims_lost_total", ""), ("once_store_evictions_total", ""),
          ("once_lease_renewals_failed_total", ""), ("once_overloaded_total", 'limit="in_flight"'),
          ("once_caller_limit_total", 'limit="address_new_keys"'),
          ("once_requests_total", 'route="/payments",result="bypassed"'), ("once_outcomes_total", 'route="/payments",outcome="unknown"'))
BY_JOB = ("up{", "process_")
GOT = re.compile(r'Labels:\{alertname="(\w+)"(.*)\}')


def firing(cases, minutes=END, others=(stays("up", 1, 'pod="another"'),)):
    """By case, which alerts fire in one of these minutes: what promtool says when it is told to expect none. Each case has a job of its own, but
    for the rules that ask for the job by name: those are told apart by instance.
    """
    names = sorted({alert.name for alert in packaged.alerts()})
    input_series = [*others]
    for case, all_series in cases.items():
        for each in all_series:
            text = each["series"].replace('instance="gateway:8081"', f'instance="{case}"')
            if not text.startswith(BY_JOB):
                text = text.replace('job="once"', f'job="{case}"')
            input_series.append({**each, "series": text})
    test = {"rule_files": ["once.rules.yml"], "evaluation_interval": "1m", "tests": [
        {"interval": "1m", "input_series": input_series,
         "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []}
                             for name in names for minute in minutes]}]}
    code, output = packaged.promtool("test", "rules", "test.yml",
                                    files={"once.rules.yml": packaged.RULES.read_text(), "test.yml": test})
    fired = {case: set() for case in cases}
    for name, labels in GOT.findall(output):
        found = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        case = found.get("instance", "none") if found["job"] == "once" else found["job"]
        fired[case].add(f"{name}:{found['limit']}" if name == "OnceNearLimit" else name)
    if code not in (0, 1) or (code == 0) != (not any(fired.values())):
        raise AssertionError(f"not understood: {output}")
    return fired


class Rules(unittest.TestCase):
    def test_promtool_finds_nothing_wrong(self):
        code, output = packaged.promtool("check", "rules", "once.rules.yml",
                                        files={"once.rules.yml": packaged.RULES.read_text()})
        self.assertEqual(code, 0, output)
        self.assertIn(f"{len(packaged.alerts())} rules found", output)

    def test_promtool_takes_the_scrape_job(self):
        files = {"scrape.yml": packaged.SCRAPE.read_text(), "once.rules.yml": packaged.RULES.read_text()}
        code, output = packaged.promtool("check", "config", "scrape.yml", files=files)
        self.assertEqual(code, 0, output)
        self.assertIn("1 rule files found", output)

    def test_promtool_takes_the_scrape_job_of_pods(self):
        token = "/etc/once-secrets/admin-token"
        scrape = packaged.SCRAPE_PODS.read_text()
        # Debian's Prometheus is built without Kubernetes.
        pods = "kubernetes_sd_configs:\n      - role: pod\n"
        for part in (token, pods):
            self.assertEqual(scrape.count(part), 1, part)
        scrape = scrape.replace(token, "token").replace(pods, "static_configs:\n      - targets: [gateway:8081]\n")
        files = {"prometheus.yml": scrape, "token": "0f1e2d3c", "once.rules.yml": packaged.RULES.read_text()}
        code, output = packaged.promtool("check", "config", "prometheus.yml", files=files)
        self.assertEqual(code, 0, output)
        self.assertIn("1 rule files found", output)

    def test_every_alert_says_what_it_is_how_bad_and_what_to_do(self):
        for alert in packaged.alerts():
            with self.subTest(alert=alert.case):
                self.assertIn(alert.labels["severity"], ("critical", "warning", "info"))
                self.assertTrue(alert.annotations["summary"] and alert.annotations["description"])
                self.assertEqual(alert.annotations["runbook_url"], f"docs/operate/runbook.md#{alert.name.lower()}")

    def test_the_runbook_has_a_part_for_every_alert(self):
        parts = re.findall(r"^#+ (\w+)$", packaged.RUNBOOK.read_text(), re.MULTILINE)
        self.assertEqual({alert.name for alert in packaged.alerts()} - set(parts), set())

    def test_the_page_lists_every_alert_with_its_severity(self):
        section = packaged.METRICS_PAGE.read_text().split("## Alerts")[1].split("\n## ")[0]
        on_page = {}
        for names, severity in re.findall(r"^\| (`Once.*?) \| (\w[\w ]*) \|", section, re.MULTILINE):
            on_page |= {name: severity for name in re.findall(r"`(\w+)`", names)}
        severities = {alert.name: alert.labels["severity"] for alert in packaged.alerts()}
        of_claims = {name for name, severity in on_page.items() if severity == "as above"}
        for name in of_claims:
            self.assertEqual(severities[name], severities[name.replace("Claims", "")])
        self.assertEqual({**on_page, **{name: severities[name] for name in of_claims}}, severities)

    def test_every_alert_has_its_cases(self):
        self.assertEqual(sorted(CASES), sorted(alert.case for alert in packaged.alerts()))

    def test_each_fires_when_it_should_and_alone(self):
        cases = {case: fires for case, (fires, _) in CASES.items()}
        self.assertEqual(firing(cases), {case: {case} for case in cases})
        self.assertEqual(firing(ALSO_FIRES), {case: {case} for case in ALSO_FIRES})

    def test_none_fires_when_it_should_not(self):
        for table in ({case: quiet for case, (_, quiet) in CASES.items()}, QUIET, NEVER_REPEATED, HARMLESS):
            for case, fired in firing(table, AROUND_AN_EVENT).items():
                with self.subTest(alert=case):
                    self.assertNotIn(case, fired)

    def test_a_restart_is_no_event_and_hides_none(self):
        cases = {case: restarted(fires) for case, (fires, _) in CASES.items()}
        around = (52, 60)
        self.assertTrue(any("x49 0+" in each["values"] for fires in cases.values() for each in fires))
        fired = firing({case: cases[case] for case in RATES}, around)
        self.assertEqual(fired, {case: {case} for case in RATES})
        quiet = {case: restarted(quiet) for case, (_, quiet) in CASES.items()}
        quiet["fallen"] = [series(name, "9x49 0x50", labels) for name, labels in EVENTS]
        for case, found in firing(quiet, AROUND_AN_EVENT).items():
            with self.subTest(alert=case):
                self.assertNotIn(case, found)
                self.assertTrue(case != "fallen" or not found, found)
        grown = {"OnceEvictions": [series("once_store_evictions_total", "9x49 3x50")]}
        self.assertEqual(firing(grown, (51,)), {"OnceEvictions": {"OnceEvictions"}})

    def test_no_gateway_at_all(self):
        """No target for 5 minutes and one more; the alert has no instance to name."""
        self.assertEqual(firing({"none": []}, (7,), others=()), {"none": {"OnceDown"}})
        self.assertEqual(firing({"none": []}, (4,), others=(stays("up", 1, minutes=0),)), {"none": set()})
        gap = (series("up", "1x50 _x3 1x44"),)
        self.assertEqual(firing({"none": []}, range(50, 60), others=gap), {"none": set()})


if __name__ == "__main__":
    unittest.main()
