"""Operations on the whole registry: copy it to another database, delete a user from it, revoke leaked tokens,
grant privileges on its tables.
"""
