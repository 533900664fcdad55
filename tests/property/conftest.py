import pytest

pytest.register_assert_rewrite("tests.property.driver", "tests.property.recorder", "tests.property.shadow")
