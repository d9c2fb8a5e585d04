"""What a client and an operator see of a store: the stories of other modules in which the store takes part, a few of each.

Every store's own behaviour is the subject of its contract (tests/store); these show that a whole gateway is wired to it.
"""

STORIES = {
    "once_test.Concurrency": ("sixty_requests_with_one_key_execute_once",
                              "sixty_waiting_requests_get_the_same_bytes_from_one_execution"),
    "once_test.SameAnswer": ("a_body_of_every_byte", "an_answer_is_forgotten_at_the_time_it_said"),
    "outcomes_test.NobodyKnows": ("takeover_executes_again_once_its_time_has_come", "hold_never_executes_again"),
    "outcomes_test.WholeAnswers": ("a_500_lets_a_retry_execute_again", "refusals_give_the_key_back"),
    "outcomes_test.LargeAnswers": ("it_is_recorded_when_it_came_whole_and_before_its_end_is_told",),
    "tombstone_test.Tombstones": ("a_late_retry_is_told_that_the_key_is_gone_and_executes_nothing",),
    "life_test.Lives": ("operators_see_what_ended_and_find_the_key_of_this_life",),
    "keys_test.Settling": ("a_key_and_the_log_name_the_request_of_the_latest_attempt",
                           "a_stuck_key_is_found_and_resolved_and_the_retry_gets_that_response",
                           "a_key_whose_owner_is_at_work_is_refused",
                           "of_operators_who_resolve_at_once_one_wins_and_the_others_are_told"),
    "keys_test.Listing": ("every_key_is_listed_once_while_traffic_goes_on", "a_list_has_a_connection_of_its_own"),
    "keys_many_test.Many": ("many_are_released_at_once_and_what_changed_meanwhile_is_left_alone",),
    "keyed_stream_test.KeyedStreams": ("a_retry_replays_the_whole_stream",
                                       "a_retry_at_another_gateway_attaches_and_goes_on_where_it_was",
                                       "a_stream_larger_than_may_be_kept_goes_on_and_is_not_replayed",
                                       "a_gateway_that_dies_in_the_middle_leaves_the_prefix"),
    "stop_test.Stops": ("what_was_recorded_is_the_answer", "another_gateway_can_stop_it"),
    "large_responses_test.LargeResponses": ("it_is_recorded_and_replayed_in_constant_memory",
                                            "one_that_breaks_off_is_unknown_and_keeps_what_came"),
}


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromNames([f"{case}.test_{story}" for case, stories in STORIES.items() for story in stories])
