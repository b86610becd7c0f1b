"""Java's form of a login: accepted texts, and those rejected unseen."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.config.jaas import login_of
from kprod.errors import ConfigError
from kprod.secret import Secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} required username="alice" password="a;b=c";',
        f'{SCRAM} required\n  username="alice"\n  password="a;b=c" ;\n',
        f'  {PLAIN}  REQUIRED password="a;b=c" username=alice serviceName="kafka";',
    ],
)
def test_a_login_is_read(text: str) -> None:
    """In any order, over several lines, with other options beside."""
    assert login_of(Secret(text))[1] == {
        "sasl_plain_username": "alice",
        "sasl_plain_password": Secret("a;b=c"),
    }


@pytest.mark.parametrize(
    ("written", "password"),
    [
        (r'"a\tb\\c\"d\'e"', "a\tb\\c\"d'e"),
        (r'"\101\1234\400\08"', "A" + "S4" + " 0" + "\x008"),
        (r"'a\'b\"c;d=e f'", "a'b\"c;d=e f"),
        ("'a\"b'", 'a"b'),
        (r'"\a\b\f\n\r\v\q\é"', "\a\b\f\n\r\vqé"),
    ],
)
def test_quotes_and_escapes(written: str, password: str) -> None:
    """Both kinds of quotes, and escapes, as Java reads them."""
    text = f"{PLAIN} required username='alice' password={written};"
    assert login_of(Secret(text))[1]["sasl_plain_password"] == Secret(password)


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_name_and_password(username: str, password: str) -> None:
    """Quotes and backslashes are escaped as in Java."""

    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"')

    text = f'{PLAIN} required username="{quoted(username)}" password="{quoted(password)}";'
    assert login_of(Secret(text))[1] == {
        "sasl_plain_username": username,
        "sasl_plain_password": Secret(password),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not of the form"),
        ("canary", "is not of the form"),
        (f'{PLAIN} required username="alice" password="canary"', "is not of the form"),
        (f'{PLAIN} required username="alice" password="canary;', "is not of the form"),
        (f'{PLAIN} username="alice" password="canary";', "is not of the form"),
        (f"{PLAIN} required " + 'a="canary" ' * 10_000 + ";", "is not of the form"),
        (f"{PLAIN} required username=alice password=can'ary;", "is not of the form"),
        (f"{PLAIN} required username=alice password='canary;", "is not of the form"),
        (f'{PLAIN} required password="canary";', "has no username"),
        (f'{PLAIN} required username="canary";', "has no password"),
        (
            'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://canary";',
            "is not of the form",
        ),
        (
            'com.sun.security.auth.module.JndiLoginModule required username="a" password="canary";',
            "names a module that kprod does not have",
        ),
        (
            'com.sun.security.auth.module.LdapLoginModule required username="a" password="canary";',
            "names a module that kprod does not have",
        ),
    ],
)
def test_rejected_values(text: str, why: str) -> None:
    """The text says why, and shows no value."""
    with pytest.raises(ConfigError, match=why) as caught:
        login_of(Secret(text))
    assert "canary" not in str(caught.value)
    assert caught.value.__traceback__ is not None
    below = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    shown = traceback.TracebackException.from_exception(below, capture_locals=True)
    assert "canary" not in "".join(shown.format())
